"""Specifications: the SLO and the policy of a stream, each with a generation that grows with every change.

A change of the join that the stream is a side of counts as a change of its SLO.

Each is stored whole, as versioned JSON. Columns beside it repeat only what queries filter or list by.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.db.epoch import stored_version
from tidemark.controller.db.tables import JoinRow, PolicyRow, RecommendationRow, SloRow, StreamRow
from tidemark.controller.errors import PolicyNotSetError, SloNotSetError, StreamJoinedError
from tidemark.controller.rollout.failed_bounds import carry_failures
from tidemark.controller.streams.store import add_event
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

T = TypeVar("T")

DEFAULT_HORIZON_MS = Slo(target_ppm=1).horizon_ms
"""The horizon of a stream without an SLO, in milliseconds."""

DEFAULT_WINDOW_MS = Slo(target_ppm=1).window_ms
"""The window of a stream without an SLO, in milliseconds."""

DEFAULT_CONFIDENCE_PPM = Slo(target_ppm=1).confidence_ppm
"""The confidence that a stream without an SLO is judged with, in parts per million."""

DEFAULT_SHARE_PPM = 990_000
"""The share of rows that a stream without an SLO is judged by, in parts per million."""

_SCHEMA_VERSION = 1
"""Version of the stored JSON: it grows when a field changes its meaning; a new field with a default needs no other."""

_MAX_READ = 4_096
"""How many stored SLOs, and how many policies, are kept as they were read: some hundred bytes each."""

_SLO, _POLICY = TypeAdapter(Slo), TypeAdapter(Policy)

Precondition = Callable[[int, str | None], None]
"""Takes the generation in the store, 0 for none, and its version, None for nothing to read; raises when the caller
expected another."""


@dataclass(frozen=True, slots=True)
class Spec(Generic[T]):
    """A specification as it is stored."""

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


# Built once: building it takes longer than running it.
_SLO_OF = select(SloRow).where(SloRow.stream_id == bindparam("stream"))


def horizon_ms_of(session: Session, stream_id: int) -> int:
    """Return the stream's horizon in milliseconds, that of its SLO or the default."""
    slo = get_slo(session, stream_id)
    return DEFAULT_HORIZON_MS if slo is None else slo.value.horizon_ms


def window_ms_of(session: Session, stream_id: int) -> int:
    """Return the window of the stream's SLO in milliseconds, or the default."""
    slo = get_slo(session, stream_id)
    return DEFAULT_WINDOW_MS if slo is None else slo.value.window_ms


def share_ppm_of(session: Session, stream_id: int) -> int:
    """Return the share of rows that the stream is judged by, in parts per million: its SLO's target or the default."""
    slo = get_slo(session, stream_id)
    return DEFAULT_SHARE_PPM if slo is None else slo.value.target_ppm


def get_policy(session: Session, stream_id: int) -> Spec[Policy]:
    """Return the stream's policy; the default one, with generation 0, when none was set."""
    return policy_of(session.get(PolicyRow, stream_id))


def get_specs(session: Session, stream_id: int) -> tuple[Spec[Slo] | None, Spec[Policy]]:
    """Return what ``get_slo`` and ``get_policy`` return, in one statement."""
    found: Any = session.execute(_SPECS, {"stream": stream_id}).one()
    slo, policy = found
    return None if slo is None else slo_of(slo), policy_of(policy)


# Built once: building it takes longer than running it.
_SPECS = (
    select(SloRow, PolicyRow)
    .select_from(StreamRow)
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .where(StreamRow.id == bindparam("stream"))
)


def slo_of(row: SloRow) -> Spec[Slo]:
    """Return the SLO that a row holds."""
    return Spec(_slo(row.specification), row.generation, row.updated_us, row.join_id)


def policy_of(row: PolicyRow | None) -> Spec[Policy]:
    """Return the policy that a row holds; the default one, with generation 0, without a row."""
    if row is None:
        return Spec(Policy(), 0, None)
    return Spec(_policy(row.specification), row.generation, row.updated_us)


def slo_values(slo: Slo) -> dict[str, Any]:
    """Return the columns that hold an SLO."""
    return {"target_ppm": slo.target_ppm, "specification": stored_specification(slo)}


def policy_values(policy: Policy) -> dict[str, Any]:
    """Return the columns that hold a policy."""
    return {"mode": policy.mode, "paused": policy.paused, "specification": stored_specification(policy)}


def put_slo(
    session: Session, stream_id: int, slo: Slo, precondition: Precondition, now_us: int, *, reason: str
) -> Spec[Slo]:
    """Set the SLO of a locked stream and return it; an equal one changes nothing, whatever the precondition.

    Raises:
        Exception: whatever ``precondition`` raises.
    """
    before = get_slo(session, stream_id)
    if before is not None and before.value == slo:
        return before
    precondition(
        before.generation if before else 0, slo_version(session, stream_id, before) if before else None
    )
    generation = 1 + (before.generation if before else session.get_one(StreamRow, stream_id).slo_generation)
    session.merge(
        SloRow(stream_id=stream_id, generation=generation, updated_us=now_us, **slo_values(slo)),
    )
    add_event(
        session,
        stream_id,
        now_us,
        kind="SloSet",
        reason=reason,
        before=json.dumps(asdict(before.value)) if before else None,
        after=json.dumps(asdict(slo)),
    )
    return Spec(slo, generation, now_us, before.join_id if before else None)


def put_policy(
    session: Session, stream_id: int, policy: Policy, precondition: Precondition, now_us: int, *, reason: str
) -> Spec[Policy]:
    """Set the policy of a locked stream and return it; an equal one changes nothing, whatever the precondition.

    Raises:
        Exception: whatever ``precondition`` raises.
    """
    before = get_policy(session, stream_id)
    if before.generation and before.value == policy:
        return before
    precondition(before.generation, policy_version(session, stream_id, before))
    generation = _next_policy(session, stream_id, before)
    session.merge(_policy_row(stream_id, generation, policy, now_us, None))
    if replace(before.value, labels=policy.labels) == policy:
        carry_failures(session, stream_id, before.generation, generation)
    add_event(
        session,
        stream_id,
        now_us,
        kind="PolicySet",
        reason=reason,
        before=json.dumps(asdict(before.value)),
        after=json.dumps(asdict(policy)),
    )
    return Spec(policy, generation, now_us)


def delete_slo(
    session: Session, stream_id: int, precondition: Precondition, now_us: int, *, reason: str
) -> Spec[Slo]:
    """Delete the SLO of a locked stream, with what was recommended for it, and return it as it was.

    Raises:
        SloNotSetError: when it has none.
        StreamJoinedError: when it is a side of a join.
        Exception: whatever ``precondition`` raises.
    """
    before = get_slo(session, stream_id)
    if before is None:
        raise SloNotSetError("the stream has no SLO that could be deleted")
    check_not_joined(session, before)
    precondition(before.generation, slo_version(session, stream_id, before))
    # A later one must not be taken for this one.
    session.get_one(StreamRow, stream_id).slo_generation = before.generation
    for table in (SloRow, RecommendationRow):
        session.execute(delete(table).where(table.stream_id == stream_id))
    add_event(
        session, stream_id, now_us, kind="SloDeleted", reason=reason, before=json.dumps(asdict(before.value))
    )
    return before


def check_not_joined(session: Session, slo: Spec[Slo] | None) -> None:
    """Check that a stream, given its SLO, is not a side of a join.

    Raises:
        StreamJoinedError: when it is.
    """
    if slo is not None and slo.join_id is not None:
        join = session.get_one(JoinRow, slo.join_id)
        raise StreamJoinedError(
            f"the stream is a side of join {join.name!r} of job {join.job!r}; delete that join first"
        )


def delete_policy(
    session: Session, stream_id: int, precondition: Precondition, now_us: int, *, reason: str
) -> Spec[Policy]:
    """Delete the policy of a locked stream, so that the default one holds, and return it as it was.

    Raises:
        PolicyNotSetError: when the default one holds already.
        Exception: whatever ``precondition`` raises.
    """
    before = get_policy(session, stream_id)
    if not before.generation:
        raise PolicyNotSetError("the stream has the default policy, which cannot be deleted")
    precondition(before.generation, policy_version(session, stream_id, before))
    session.get_one(StreamRow, stream_id).policy_generation = before.generation
    session.execute(delete(PolicyRow).where(PolicyRow.stream_id == stream_id))
    add_event(
        session,
        stream_id,
        now_us,
        kind="PolicyDeleted",
        reason=reason,
        before=json.dumps(asdict(before.value)),
        after=json.dumps(asdict(Policy())),
    )
    return before


def set_paused(session: Session, stream_id: int, *, paused: bool, reason: str, now_us: int) -> Spec[Policy]:
    """Set whether the policy of a locked stream is paused, and nothing else of it, and return the policy."""
    before = get_policy(session, stream_id)
    if before.value.paused == paused:
        return before
    policy, generation = replace(before.value, paused=paused), _next_policy(session, stream_id, before)
    session.merge(_policy_row(stream_id, generation, policy, now_us, reason if paused else None))
    # Pausing does not make a bound that failed worth another try.
    carry_failures(session, stream_id, before.generation, generation)
    add_event(session, stream_id, now_us, kind="Paused" if paused else "Resumed", reason=reason)
    return Spec(policy, generation, now_us)


def slo_version(session: Session, stream_id: int, slo: Spec[Slo]) -> str:
    """Return what tells an SLO of a stream from every other one it ever had."""
    text = stored_specification(slo.value)
    return stored_version(session, slo.generation, stream_id, slo.updated_us, text)


def policy_version(session: Session, stream_id: int, policy: Spec[Policy]) -> str:
    """Return what tells a policy of a stream from every other one it ever had.

    It is 0 for the default one as long as none was ever set.
    """
    text = stored_specification(policy.value)
    if policy.generation:
        return stored_version(session, policy.generation, stream_id, policy.updated_us, text)
    deleted = session.get_one(StreamRow, stream_id).policy_generation
    return stored_version(session, 0, stream_id, deleted, text) if deleted else "0"


def fields_of(value: Slo | Policy | JoinSlo) -> dict[str, Any]:
    """Return the fields of a specification by name, their values as they are."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _next_policy(session: Session, stream_id: int, before: Spec[Policy]) -> int:
    """Return the generation of the next policy."""
    return 1 + (before.generation or session.get_one(StreamRow, stream_id).policy_generation)


def _policy_row(
    stream_id: int, generation: int, policy: Policy, now_us: int, paused_why: str | None
) -> PolicyRow:
    return PolicyRow(
        stream_id=stream_id,
        generation=generation,
        updated_us=now_us,
        paused_why=paused_why,
        **policy_values(policy),
    )


def stored_specification(value: Slo | Policy | JoinSlo) -> str:
    """Return a specification as it is stored."""
    return json.dumps({"schema_version": _SCHEMA_VERSION, **asdict(value)})


# What a text says never changes, and every decision reads it several times.


@lru_cache(maxsize=_MAX_READ)
def _slo(text: str) -> Slo:
    return loaded_specification(_SLO, text)


@lru_cache(maxsize=_MAX_READ)
def _policy(text: str) -> Policy:
    return loaded_specification(_POLICY, text)


def loaded_specification(adapter: TypeAdapter[T], text: str) -> T:
    """Return a stored specification."""
    document = json.loads(text)
    version = document.pop("schema_version")
    if version != _SCHEMA_VERSION:
        raise ValueError(
            f"the store holds a specification of version {version}; this release reads {_SCHEMA_VERSION}: upgrade it"
        )
    # JSON has no tuples: strictness is for requests. A field of a newer release is none of ours.
    return adapter.validate_python(document, strict=False, extra="ignore")
