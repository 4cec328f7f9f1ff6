"""The SLO and the policy of a stream, each with a generation that grows with every change.

A change of the join that the stream is a side of counts as a change of its SLO. Columns beside the JSON repeat only
what queries filter or list by.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.epoch import stored_version
from tidemark.controller.base.db.tables import JoinRow, PolicyRow, RecommendationRow, SloRow, StreamRow
from tidemark.controller.base.errors import (
    PolicyNotSetError,
    SloNotSetError,
    StreamJoinedError,
    TidemarkError,
)
from tidemark.controller.specs.change import ChangeRequest
from tidemark.models.specs.slo import Policy, Slo

T = TypeVar("T")
V = TypeVar("V", Slo, Policy)

_SHORTEST_HORIZON_MS = Slo(target_ppm=1).horizons_ms[0]
"""The horizon of a stream without an SLO, in milliseconds."""

DEFAULT_WINDOW_MS = Slo(target_ppm=1).window_ms
"""The window of a stream without an SLO, in milliseconds."""

DEFAULT_CONFIDENCE_PPM = Slo(target_ppm=1).confidence_ppm
"""The confidence that a stream without an SLO is judged with, in parts per million."""

DEFAULT_SHARE_PPM = 990_000
"""The share of rows that a stream without an SLO is judged by, in parts per million."""


@dataclass(frozen=True, slots=True)
class Spec(Generic[T]):
    """A specification of a stream as it is stored."""

    value: T
    """The SLO or the policy."""
    generation: int
    """How often it was changed; 0 for a default that nobody set."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch; None for a default."""
    join_id: int | None = None
    """Of an SLO: the join whose output decides about the stream's bound; None without one."""


def get_slo(session: Session, stream_id: int) -> Spec[Slo] | None:
    """Return the stream's SLO, None when none was set."""
    row = session.scalars(_SLO_OF, {"stream": stream_id}).one_or_none()
    return None if row is None else slo_of(row)


def get_policy(session: Session, stream_id: int) -> Spec[Policy]:
    """Return the stream's policy; the default one, with generation 0, when none was set."""
    return policy_of(session.get(PolicyRow, stream_id))


def get_specs(session: Session, stream_id: int) -> tuple[Spec[Slo] | None, Spec[Policy]]:
    """Return what ``get_slo`` and ``get_policy`` return, in one statement."""
    found: Any = session.execute(_SPECS, {"stream": stream_id}).one()
    slo, policy = found
    return None if slo is None else slo_of(slo), policy_of(policy)


# Built once: building them takes longer than running them.
_SLO_OF = select(SloRow).where(SloRow.stream_id == bindparam("stream"))
_SPECS = (
    select(SloRow, PolicyRow)
    .select_from(StreamRow)
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .where(StreamRow.id == bindparam("stream"))
)


def horizon_ms_of(session: Session, stream_id: int) -> int:
    """Return the stream's horizon in milliseconds, see ``horizon_ms_under``."""
    slo = get_slo(session, stream_id)
    chosen_ms = session.connection().execute(_CHOSEN_MS, {"stream": stream_id}).scalar_one_or_none()
    return horizon_ms_under(None if slo is None else slo.value, chosen_ms)


# Built once: building it takes longer than running it.
_CHOSEN_MS = select(RecommendationRow.horizon_ms).where(RecommendationRow.stream_id == bindparam("stream"))


def horizon_ms_under(slo: Slo | None, chosen_ms: int | None) -> int:
    """Return the horizon under an SLO in milliseconds.

    Args:
        slo: the SLO; None without one.
        chosen_ms: the horizon of the newest recommendation; None without one.
    """
    set_ms = None if slo is None else slo.horizon_ms
    return set_ms or chosen_ms or _SHORTEST_HORIZON_MS


def window_ms_of(session: Session, stream_id: int) -> int:
    """Return the window of the stream's SLO in milliseconds, or the default."""
    slo = get_slo(session, stream_id)
    return DEFAULT_WINDOW_MS if slo is None else slo.value.window_ms


def share_ppm_of(session: Session, stream_id: int) -> int:
    """Return the share of rows that the stream is judged by, in parts per million: its SLO's target or the default."""
    slo = get_slo(session, stream_id)
    return DEFAULT_SHARE_PPM if slo is None else slo.value.target_ppm


def slo_of(row: SloRow) -> Spec[Slo]:
    """Return the SLO that a row holds."""
    return Spec(row.specification, row.generation, row.updated_us, row.join_id)


def policy_of(row: PolicyRow | None) -> Spec[Policy]:
    """Return the policy that a row holds; the default one, with generation 0, without a row."""
    if row is None:
        return Spec(Policy(), 0, None)
    return Spec(row.specification, row.generation, row.updated_us)


@dataclass(frozen=True, slots=True)
class StreamKind(Generic[V]):
    """A kind of specification of which a stream has one."""

    name: str
    """What its events begin with."""
    table: type[SloRow | PolicyRow]
    columns: Callable[[V], dict[str, Any]]
    last: str
    """Column of streams with the generation of the one deleted last: a later one must not be taken for it."""
    get: Callable[[Session, int], Spec[V] | None]
    absent: Callable[[], TidemarkError]
    """Makes the error when there is none that could be deleted."""


def slo_values(slo: Slo) -> dict[str, Any]:
    """Return the columns that hold an SLO."""
    return {"target_ppm": slo.target_ppm, "specification": slo}


def policy_values(policy: Policy) -> dict[str, Any]:
    """Return the columns that hold a policy."""
    return {"mode": policy.mode, "paused": policy.paused, "paused_why": None, "specification": policy}


SLO = StreamKind(
    "Slo",
    SloRow,
    slo_values,
    "slo_generation",
    get_slo,
    lambda: SloNotSetError("the stream has no SLO that could be deleted"),
)
POLICY = StreamKind(
    "Policy",
    PolicyRow,
    policy_values,
    "policy_generation",
    get_policy,
    lambda: PolicyNotSetError("the stream has the default policy, which cannot be deleted"),
)


def put_spec(change: ChangeRequest, kind: StreamKind[V], stream: StreamRow, value: V) -> Spec[V]:
    """Set the SLO or the policy of a locked stream; an equal one changes nothing, whatever the precondition.

    Raises:
        Exception: whatever the precondition raises.
    """
    before = kind.get(change.session, stream.id)
    if before is not None and before.generation and before.value == value:
        return before
    _check(change, kind, stream, before)
    stored = _store(change, kind, stream, value, before)
    change.note([stream], f"{kind.name}Set", before=_event(before), after=_event(stored))
    return stored


def delete_spec(change: ChangeRequest, kind: StreamKind[V], stream: StreamRow) -> Spec[V]:
    """Delete the SLO or the policy of a locked stream, and return it as it was.

    Raises:
        SloNotSetError, PolicyNotSetError: when nobody set one.
        StreamJoinedError: when it is the SLO of a side of a join.
        Exception: whatever the precondition raises.
    """
    session, before = change.session, kind.get(change.session, stream.id)
    if before is None or not before.generation:
        raise kind.absent()
    check_not_joined(session, before)
    _check(change, kind, stream, before)
    setattr(stream, kind.last, before.generation)
    session.execute(delete(kind.table).where(kind.table.stream_id == stream.id))
    session.flush()
    after = kind.get(session, stream.id)
    change.note([stream], f"{kind.name}Deleted", before=_event(before), after=_event(after))
    return before


def set_paused(
    change: ChangeRequest, stream: StreamRow, *, paused: bool
) -> tuple[Spec[Policy], Spec[Policy]]:
    """Set whether the policy of a locked stream is paused, and nothing else of it; return it before and after."""
    before = get_policy(change.session, stream.id)
    if before.value.paused == paused:
        return before, before
    policy, why = replace(before.value, paused=paused), change.reason if paused else None
    stored = _store(change, POLICY, stream, policy, before, paused_why=why)
    change.note([stream], "Paused" if paused else "Resumed")
    return before, stored


def version_of(session: Session, kind: StreamKind[V], stream: StreamRow, stored: Spec[V]) -> str:
    """Return what tells an SLO or a policy of a stream from every other one it ever had.

    It is 0 for the default policy as long as none was ever set.
    """
    text = repr(stored.value)
    if stored.generation:
        return stored_version(session, stored.generation, stream.id, stored.updated_us, text)
    deleted: int = getattr(stream, kind.last)
    return stored_version(session, 0, stream.id, deleted, text) if deleted else "0"


def check_not_joined(session: Session, slo: Spec[Any] | None) -> None:
    """Check that a stream, given its SLO, is not a side of a join.

    Raises:
        StreamJoinedError: when it is.
    """
    if slo is not None and slo.join_id is not None:
        join = session.get_one(JoinRow, slo.join_id)
        raise StreamJoinedError(
            f"the stream is a side of join {join.name!r} of job {join.job!r}; delete that join first"
        )


def _check(change: ChangeRequest, kind: StreamKind[V], stream: StreamRow, before: Spec[V] | None) -> None:
    version = None if before is None else version_of(change.session, kind, stream, before)
    generation = 0 if before is None else before.generation
    found = f"generation {generation}" if generation else "no generation yet"
    change.check(version, found, required=generation > 0)


def _store(
    change: ChangeRequest,
    kind: StreamKind[V],
    stream: StreamRow,
    value: V,
    before: Spec[V] | None,
    **columns: Any,
) -> Spec[V]:
    last: int = before.generation if before and before.generation else getattr(stream, kind.last)
    columns = {"generation": last + 1, "updated_us": change.now_us, **kind.columns(value), **columns}
    change.session.merge(kind.table(stream_id=stream.id, **columns))
    return Spec(value, last + 1, change.now_us, before.join_id if before else None)


def _event(stored: Spec[V] | None) -> str | None:
    return None if stored is None else json.dumps(asdict(stored.value))
