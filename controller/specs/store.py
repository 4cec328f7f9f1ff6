"""The SLO and the policy of a stream, each with a generation that grows with every change.

A change of the join that the stream is a side of counts as a change of its SLO. Each is stored whole, as versioned
JSON. Columns beside it repeat only what queries filter or list by.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.db.epoch import stored_version
from tidemark.controller.db.tables import JoinRow, PolicyRow, SloRow, StreamRow
from tidemark.controller.errors import PolicyNotSetError, SloNotSetError, StreamJoinedError
from tidemark.controller.specs.kinds import SpecKind, Write, loaded_specification, stored_specification
from tidemark.controller.streams.store import add_event
from tidemark.models.slo import Policy, Slo

T = TypeVar("T")
V = TypeVar("V", Slo, Policy)

DEFAULT_HORIZON_MS = Slo(target_ppm=1).horizon_ms
"""The horizon of a stream without an SLO, in milliseconds."""

DEFAULT_WINDOW_MS = Slo(target_ppm=1).window_ms
"""The window of a stream without an SLO, in milliseconds."""

DEFAULT_CONFIDENCE_PPM = Slo(target_ppm=1).confidence_ppm
"""The confidence that a stream without an SLO is judged with, in parts per million."""

DEFAULT_SHARE_PPM = 990_000
"""The share of rows that a stream without an SLO is judged by, in parts per million."""

_MAX_READ = 4_096
"""How many stored SLOs, and how many policies, are kept as they were read: some hundred bytes each."""

_SLO, _POLICY = TypeAdapter(Slo), TypeAdapter(Policy)


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


def slo_of(row: SloRow) -> Spec[Slo]:
    """Return the SLO that a row holds."""
    return Spec(_slo(row.specification), row.generation, row.updated_us, row.join_id)


def policy_of(row: PolicyRow | None) -> Spec[Policy]:
    """Return the policy that a row holds; the default one, with generation 0, without a row."""
    if row is None:
        return Spec(Policy(), 0, None)
    return Spec(_policy(row.specification), row.generation, row.updated_us)


# What a text says never changes, and every decision reads it several times.


@lru_cache(maxsize=_MAX_READ)
def _slo(text: str) -> Slo:
    return loaded_specification(_SLO, text)


@lru_cache(maxsize=_MAX_READ)
def _policy(text: str) -> Policy:
    return loaded_specification(_POLICY, text)


def slo_values(slo: Slo) -> dict[str, Any]:
    """Return the columns that hold an SLO."""
    return {"target_ppm": slo.target_ppm, "specification": stored_specification(slo)}


def policy_values(policy: Policy) -> dict[str, Any]:
    """Return the columns that hold a policy."""
    return {"mode": policy.mode, "paused": policy.paused, "specification": stored_specification(policy)}


class _OfStream(SpecKind[int, V, Spec[V]]):
    """A kind of which a stream has one; the key is its id."""

    def equal(self, stored: Spec[V], value: V) -> bool:
        return self.is_set(stored) and stored.value == value

    def is_set(self, stored: Spec[V] | None) -> bool:
        return stored is not None and stored.generation > 0

    def words(self, stored: Spec[V] | None) -> str:
        return f"generation {stored.generation}" if stored and stored.generation else "no generation yet"

    def event(self, stored: Spec[V]) -> str:
        return json.dumps(asdict(stored.value))


class _Slos(_OfStream[Slo]):
    set_event, deleted_event = "SloSet", "SloDeleted"

    def find(self, session: Session, key: int) -> Spec[Slo] | None:
        return get_slo(session, key)

    def existing(self, session: Session, key: int) -> Spec[Slo]:
        before = get_slo(session, key)
        if before is None:
            raise SloNotSetError("the stream has no SLO that could be deleted")
        check_not_joined(session, before)
        return before

    def store(
        self, session: Session, key: int, value: Slo, before: Spec[Slo] | None, now_us: int
    ) -> tuple[Spec[Slo], Sequence[int]]:
        # A later one must not be taken for one that was deleted.
        last = before.generation if before else session.get_one(StreamRow, key).slo_generation
        session.merge(
            SloRow(stream_id=key, generation=last + 1, updated_us=now_us, **slo_values(value)),
        )
        return Spec(value, last + 1, now_us, before.join_id if before else None), (key,)

    def erase(self, session: Session, key: int, before: Spec[Slo]) -> Sequence[int]:
        session.get_one(StreamRow, key).slo_generation = before.generation
        session.execute(delete(SloRow).where(SloRow.stream_id == key))
        return (key,)

    def version(self, session: Session, key: int, stored: Spec[Slo]) -> str:
        text = stored_specification(stored.value)
        return stored_version(session, stored.generation, key, stored.updated_us, text)


class _Policies(_OfStream[Policy]):
    set_event, deleted_event = "PolicySet", "PolicyDeleted"

    def find(self, session: Session, key: int) -> Spec[Policy]:
        return get_policy(session, key)

    def default(self) -> Spec[Policy]:
        return policy_of(None)

    def existing(self, session: Session, key: int) -> Spec[Policy]:
        before = get_policy(session, key)
        if not before.generation:
            raise PolicyNotSetError("the stream has the default policy, which cannot be deleted")
        return before

    def store(
        self, session: Session, key: int, value: Policy, before: Spec[Policy] | None, now_us: int
    ) -> tuple[Spec[Policy], Sequence[int]]:
        return self.store_paused(session, key, value, before, now_us, why=None), (key,)

    def store_paused(
        self,
        session: Session,
        key: int,
        value: Policy,
        before: Spec[Policy] | None,
        now_us: int,
        *,
        why: str | None,
    ) -> Spec[Policy]:
        """Store a policy, with the reason why it was paused by itself."""
        last = before.generation if before else 0
        last = last or session.get_one(StreamRow, key).policy_generation
        session.merge(
            PolicyRow(
                stream_id=key,
                generation=last + 1,
                updated_us=now_us,
                paused_why=why,
                **policy_values(value),
            )
        )
        return Spec(value, last + 1, now_us)

    def erase(self, session: Session, key: int, before: Spec[Policy]) -> Sequence[int]:
        session.get_one(StreamRow, key).policy_generation = before.generation
        session.execute(delete(PolicyRow).where(PolicyRow.stream_id == key))
        return (key,)

    def version(self, session: Session, key: int, stored: Spec[Policy]) -> str:
        """Return the version; 0 for the default policy as long as none was ever set."""
        text = stored_specification(stored.value)
        if stored.generation:
            return stored_version(session, stored.generation, key, stored.updated_us, text)
        deleted = session.get_one(StreamRow, key).policy_generation
        return stored_version(session, 0, key, deleted, text) if deleted else "0"


SLOS, POLICIES = _Slos(), _Policies()
"""The SLOs and the policies of streams; the key is the stream's id."""


def set_paused(
    session: Session, stream_id: int, *, paused: bool, reason: str, now_us: int
) -> Write[Spec[Policy]]:
    """Set whether the policy of a locked stream is paused, and nothing else of it."""
    before = get_policy(session, stream_id)
    if before.value.paused == paused:
        return Write(before, before)
    policy, why = replace(before.value, paused=paused), reason if paused else None
    stored = POLICIES.store_paused(session, stream_id, policy, before, now_us, why=why)
    add_event(session, stream_id, now_us, kind="Paused" if paused else "Resumed", reason=reason)
    return Write(stored, before, (stream_id,))


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
