"""SLOs and policies are stored whole, as versioned JSON; columns repeat only what queries filter or list by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_WORD, _WHOLE = sa.String(length=20), sa.BigInteger()


MOVED: Mapping[str, Mapping[str, tuple[Any, str | None]]] = MappingProxyType(
    {
        "slos": {
            "latency_cap_ms": (_WHOLE, None),
            "on_conflict": (_WORD, None),
            "confidence_ppm": (_WHOLE, "950000"),
            "horizon_ms": (_WHOLE, "86400000"),
            "objective": (_WORD, "occurrences"),
            "good_windows_ppm": (_WHOLE, "990000"),
            "window_ms": (_WHOLE, "2592000000"),
            "state_cap_rows": (_WHOLE, None),
            "worst_window_ppm": (_WHOLE, None),
        },
        "policies": {
            "min_bound_ms": (_WHOLE, "0"),
            "max_bound_ms": (_WHOLE, None),
            "directions": (_WORD, "Widen Narrow"),
            "margin_ppm": (_WHOLE, "0"),
            "cooldown_ms": (_WHOLE, "3600000"),
            "max_narrowings_a_day": (_WHOLE, None),
            "max_narrowing_ppm": (_WHOLE, None),
            "evidence_ms": (_WHOLE, "3600000"),
            "evidence_windows": (_WHOLE, "100"),
            "freeze_windows": (sa.Text(), "[]"),
            "on_no_data": (_WORD, "hold"),
            "approval": (_WORD, "none"),
        },
    }
)
"""By table: the columns that move into the JSON, each with its type and default; None: it may be null."""

KEPT = MappingProxyType({"slos": ("target_ppm",), "policies": ("mode", "paused")})
"""By table: the columns that stay beside it, because queries use them."""


def upgrade() -> None:
    """Move the fields into the JSON."""
    for name, columns in MOVED.items():
        op.add_column(name, sa.Column("specification", sa.Text(), nullable=True))
        table = _table(name)
        for row in op.get_bind().execute(sa.select(table)).mappings().all():
            document = {"schema_version": 1, **{field: row[field] for field in (*KEPT[name], *columns)}}
            if name == "policies":
                document["directions"] = document["directions"].split()
                document["freeze_windows"] = json.loads(document["freeze_windows"])
            _set(table, row["stream_id"], {"specification": json.dumps(document)})
        with op.batch_alter_table(name) as batch:
            batch.alter_column("specification", existing_type=sa.Text(), nullable=False)
            for field in columns:
                batch.drop_column(field)


def downgrade() -> None:
    """Undo it."""
    for name, columns in MOVED.items():
        for field, (kind, default) in columns.items():
            op.add_column(name, sa.Column(field, kind, server_default=default, nullable=default is None))
        table = _table(name)
        for row in op.get_bind().execute(sa.select(table)).mappings().all():
            document = json.loads(row["specification"])
            if name == "policies":
                document["directions"] = " ".join(document["directions"])
                document["freeze_windows"] = json.dumps(document["freeze_windows"])
            _set(table, row["stream_id"], {field: document[field] for field in columns})
        with op.batch_alter_table(name) as batch:
            batch.drop_column("specification")


def _table(name: str) -> sa.TableClause:
    names = ("stream_id", *KEPT[name], *MOVED[name], "specification")
    # SQLite has whole numbers for truth values.
    kinds = {"paused": sa.Boolean()}
    return sa.table(name, *(sa.column(column, kinds.get(column)) for column in names))


def _set(table: sa.TableClause, stream_id: int, values: dict[str, Any]) -> None:
    op.execute(table.update().where(table.c.stream_id == stream_id).values(values))
