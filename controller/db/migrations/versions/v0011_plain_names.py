"""Columns, stored values and JSON keys take the names that the API has; what nobody reads is dropped."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_LATE = {"late_least": "late_min", "late_most": "late_max"}
_SHARE = {"least_ppm": "min_ppm", "most_ppm": "max_ppm"}
_JUDGED = {"judged_late_least": "judged_late_min", "judged_late_most": "judged_late_max"}

COLUMNS = MappingProxyType(
    {
        "streams": _LATE,
        "reports": {"given_up_reports": "dropped_reports", **_LATE},
        "ledger_keys": _LATE,
        "ledger": _LATE,
        "series": {**_LATE, "effective_ms": "effective_bound_ms"},
        "report_hours": _LATE,
        "overviews": {
            "in_use_ms": "in_use_bound_ms",
            "effective_ms": "effective_bound_ms",
            "now_least_ppm": "now_min_ppm",
            "now_most_ppm": "now_max_ppm",
            "window_least_ppm": "window_min_ppm",
            "window_most_ppm": "window_max_ppm",
        },
        "slos": {"yields": "on_conflict", "slices_ppm": "good_windows_ppm"},
        "policies": {
            "least_bound_ms": "min_bound_ms",
            "greatest_bound_ms": "max_bound_ms",
            "dwell_ms": "cooldown_ms",
            "most_narrowings_a_day": "max_narrowings_a_day",
            "most_narrowing_ppm": "max_narrowing_ppm",
        },
        "predictions": {**_SHARE, **_JUDGED},
        "rollouts": {
            "in_use_ms": "in_use_bound_ms",
            **_SHARE,
            **_JUDGED,
            "at_risk_late_least": "at_risk_late_min",
            "at_risk_late_most": "at_risk_late_max",
        },
    }
)
"""By table: each column that is renamed, and its new name."""

_COUNT = "BIGINT NOT NULL DEFAULT 0"

DROPPED = MappingProxyType(
    {
        "streams": (("created_us", _COUNT),),
        "overviews": (
            ("needs_from_us", "BIGINT"),
            ("needs_share_ppm", "BIGINT"),
            ("now_from_us", "BIGINT"),
        ),
        "published_bounds": (("cause", "VARCHAR(20) NOT NULL DEFAULT 'Request'"),),
        "failed_bounds": (
            ("kind", "VARCHAR(40) NOT NULL DEFAULT ''"),
            ("failed_us", _COUNT),
        ),
    }
)
"""By table: each column that is dropped, and its definition for the way back."""

VALUES = (
    ("slos", "on_conflict", "completeness", "miss_target"),
    ("slos", "on_conflict", "latency", "exceed_latency_cap"),
    ("slos", "on_conflict", "state", "exceed_state_cap"),
    ("policies", "on_no_data", "greatest", "max"),
    ("rollouts", "held_by", "Dwell", "Cooldown"),
)
"""Table, column (by its new name), value before and after."""

_ENVELOPE = {"least_bound_ms": "min_bound_ms", "greatest_bound_ms": "max_bound_ms"}
_DELAY = {"least_us": "min_us", "most_us": "max_us"}

KEYS = (
    ("published_bounds", "envelope", _ENVELOPE),
    ("rollouts", "from_envelope", _ENVELOPE),
    ("rollouts", "to_envelope", _ENVELOPE),
    ("failed_bounds", "envelope", _ENVELOPE),
    ("recommendations", "transition", _SHARE),
    ("live_states", "live", {"heard_us": "last_contact_us"}),
    ("live_states", "append_delay", _DELAY),
)
"""Table, column, and the JSON keys in it that are renamed."""

_REPORT = {"given_up_reports": "dropped_reports"}
_LIVE = {"heard_us": "last_contact_us"}

AT_A_TIME = 500
"""How many stored reports are read at a time."""


def upgrade() -> None:
    """Rename columns, values and JSON keys; drop what nobody reads."""
    _rename_columns(back=False)
    _rename_contents(back=False)
    for table, columns in DROPPED.items():
        for column, _ in columns:
            op.execute(sa.text(f'ALTER TABLE "{table}" DROP COLUMN "{column}"'))
    op.drop_table("lease_terms")


def downgrade() -> None:
    """Undo it; what was dropped comes back empty."""
    op.create_table(
        "lease_terms",
        sa.Column("shard", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("fencing", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=False),
        sa.Column("taken_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("shard", "fencing", name=op.f("pk_lease_terms")),
    )
    for table, columns in DROPPED.items():
        for column, definition in columns:
            op.execute(sa.text(f'ALTER TABLE "{table}" ADD COLUMN "{column}" {definition}'))
    _rename_contents(back=True)
    _rename_columns(back=True)


def _rename_columns(*, back: bool) -> None:
    for table, names in COLUMNS.items():
        for before, after in names.items():
            old, new = (after, before) if back else (before, after)
            # Not in batch mode, which copies tables on SQLite: other tables refer to them.
            op.execute(sa.text(f'ALTER TABLE "{table}" RENAME COLUMN "{old}" TO "{new}"'))


def _rename_contents(*, back: bool) -> None:
    for table, column, before, after in VALUES:
        old, new = (after, before) if back else (before, after)
        values = sa.table(table, sa.column(column))
        op.execute(values.update().where(values.c[column] == old).values({column: new}))
    for table, column, names in KEYS:
        values = sa.table(table, sa.column(column))
        for before, after in names.items():
            old, new = (after, before) if back else (before, after)
            replaced = sa.func.replace(values.c[column], f'"{old}"', f'"{new}"')
            op.execute(values.update().where(values.c[column].is_not(None)).values({column: replaced}))
    _rewrite_bodies(back=back)


def _rewrite_bodies(*, back: bool) -> None:
    bodies = sa.table("report_bodies", sa.column("report_id"), sa.column("body"))
    reports = sa.table("reports", sa.column("id"), sa.column("fingerprint"))
    connection = op.get_bind()
    for report_id, body in _bodies(connection, bodies):
        document = json.loads(zlib.decompress(body))
        _rename(document, _REPORT, back=back)
        _rename(document.get("live"), _LIVE, back=back)
        _rename(document.get("append_delay"), _DELAY, back=back)
        content = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
        connection.execute(
            bodies.update().where(bodies.c.report_id == report_id).values(body=zlib.compress(content, 1))
        )
        # The fingerprint is the digest of the body: with the old one, a report that is sent again would conflict.
        digest = hashlib.sha256(content).hexdigest()
        connection.execute(reports.update().where(reports.c.id == report_id).values(fingerprint=digest))


def _bodies(connection: sa.Connection, bodies: sa.TableClause) -> Iterator[tuple[int, bytes]]:
    """Yield id and body of every stored report."""
    last = -1
    while True:
        some = connection.execute(
            sa.select(bodies.c.report_id, bodies.c.body)
            .where(bodies.c.report_id > last)
            .order_by(bodies.c.report_id)
            .limit(AT_A_TIME)
        ).all()
        yield from ((row.report_id, row.body) for row in some)
        if len(some) < AT_A_TIME:
            return
        last = some[-1].report_id


def _rename(document: dict[str, Any] | None, names: dict[str, str], *, back: bool) -> None:
    if document is None:
        return
    for before, after in names.items():
        old, new = (after, before) if back else (before, after)
        if old in document:
            document[new] = document.pop(old)
