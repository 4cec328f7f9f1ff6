"""Decides streams: load what counts, decide, and write the decision in one transaction."""

from __future__ import annotations

import logging

from sqlalchemy.orm import Session

from tidemark.controller.bounds.publication import has_published
from tidemark.controller.db.database import Database
from tidemark.controller.db.leases import Lease, LeaseKeeper, confirm
from tidemark.controller.decide.decision import decide, propose_without_data
from tidemark.controller.decide.load import (
    HorizonEvidence,
    Loaded,
    Version,
    bound_held,
    evidence_over,
    load,
    progress_in,
    version_of,
)
from tidemark.controller.decide.write import write
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.rollout.advance import advance_rollout, is_due
from tidemark.controller.rollout.propose import changes_published, propose
from tidemark.controller.rollout.record import Proposal
from tidemark.controller.rollout.rules import RolloutRules, rules_of
from tidemark.controller.rollout.store import open_rollout
from tidemark.controller.runtime.background import GoOn
from tidemark.controller.shadow.follow import decide_shadow, follow_shadow, why_not_shadowed
from tidemark.controller.shadow.store import StoredShadow, has_shadow
from tidemark.controller.streams.store import lock_by_id
from tidemark.models.rollout.restarts import FleetLimits

_log = logging.getLogger(__name__)


class Decider:
    """Decides streams, and remembers which versions are decided already. Safe to call from several threads.

    Args:
        database: the store.
        leases: which streams this process decides.
        kept: the evidence on streams.
        fleet: what limits how many jobs are changed at once.
    """

    def __init__(
        self, database: Database, leases: LeaseKeeper, kept: EvidenceCache, fleet: FleetLimits
    ) -> None:
        self._database = database
        self.fleet = fleet
        """What limits how many jobs are changed at once."""
        self.leases = leases
        """Which streams this process decides."""
        self.kept = kept
        """The evidence on streams."""
        self._decided: dict[int, Version] = {}

    def evidence(self, session: Session, stream_id: int, horizon_ms: int) -> HorizonEvidence | None:
        """Return the evidence on a stream over ``horizon_ms``; None without reports."""
        return evidence_over(session, stream_id, horizon_ms, self.kept)

    def decide(self, stream_id: int, now_us: int, go_on: GoOn = lambda: None) -> bool:
        """Decide one stream; return False when nothing it depends on has changed, or another process decides it.

        An open rollout is advanced in both cases where this process decides. The stream's shadow follows the decision.

        Args:
            stream_id: the stream.
            now_us: the wall time in microseconds.
            go_on: called between the steps; what it raises ends the decision, and nothing is written.

        Raises:
            LeaseLostError: when another process has taken the stream over; nothing was written.
        """
        lease = self.leases.lease_of(stream_id)
        if lease is None:
            return False
        with self._database.read() as session:
            version = version_of(session, stream_id)
            unchanged = self._decided.get(stream_id) == version
            loaded = None if unchanged else load(session, stream_id, version, now_us, self.kept)
            if loaded is None and not self._is_due(session, stream_id, now_us):
                return False
            shadowed = loaded is not None and has_shadow(session, stream_id)
        go_on()
        decision = None if loaded is None else decide(loaded)
        go_on()
        with self._database.write() as session:
            if decision is None:
                written = False
                self._advance(session, stream_id, now_us)
            else:
                written = write(session, decision, now_us, self.fleet)
            confirm(session, stream_id, lease)
            published = has_published(session)
            go_on()
        if published:
            self._database.answers_changed()
        if written and loaded is not None:
            self._decided[stream_id] = loaded.version
            if shadowed:
                self._follow(loaded, lease, now_us)
        return loaded is not None

    def decide_within(self, session: Session, stream_id: int, now_us: int) -> None:
        """Decide one stream in a transaction that may be rolled back, so the decision is not remembered."""
        loaded = load(session, stream_id, version_of(session, stream_id), now_us, self.kept)
        if loaded is not None:
            write(session, decide(loaded), now_us, self.fleet)

    def decide_shadow(self, stream_id: int, now_us: int) -> None:
        """Decide the shadow of a stream without waiting for the stream's next decision, where this process decides."""
        lease = self.leases.lease_of(stream_id)
        with self._database.read() as session:
            loaded = load(session, stream_id, version_of(session, stream_id), now_us, self.kept)
        if lease is not None and loaded is not None:
            self._follow(loaded, lease, now_us)

    def try_shadow(self, session: Session, shadow: StoredShadow, now_us: int) -> None:
        """Decide a shadow in a transaction that may be rolled back."""
        stream_id = shadow.row.stream_id
        loaded = load(session, stream_id, version_of(session, stream_id), now_us, self.kept)
        if loaded is not None and why_not_shadowed(loaded) is None:
            decide_shadow(shadow, loaded, now_us)

    def _follow(self, loaded: Loaded, lease: Lease, now_us: int) -> None:
        try:
            follow_shadow(self._database, loaded, lease, now_us)
        except Exception:  # noqa: BLE001 - the stream's own decision stands, and the next one tries again
            _log.exception("the shadow of stream %d could not be followed", loaded.horizon.stream_id)

    def forget(self, stream_id: int) -> None:
        """Drop what is remembered of a stream that was deleted."""
        self.kept.forget(stream_id)
        self._decided.pop(stream_id, None)

    def _is_due(self, session: Session, stream_id: int, now_us: int) -> bool:
        """Return whether time alone changes something: an open rollout, or the bound without data."""
        rules = rules_of(session, stream_id, self.fleet)
        if rules is None:
            return False
        row = open_rollout(session, stream_id)
        if row is not None and is_due(session, row, rules, now_us):
            return True
        proposal = self._proposal_without_data(session, stream_id, rules, now_us)
        return proposal is not None and changes_published(session, stream_id, rules, proposal, now_us)

    def _advance(self, session: Session, stream_id: int, now_us: int) -> None:
        """Write what time alone changes."""
        stream = lock_by_id(session, stream_id)
        rules = None if stream is None else rules_of(session, stream_id, self.fleet)
        if rules is None:
            return
        advance_rollout(session, stream_id, rules, now_us)
        proposal = self._proposal_without_data(session, stream_id, rules, now_us)
        if proposal is not None and propose(session, stream_id, rules, proposal, now_us):
            advance_rollout(session, stream_id, rules, now_us)

    def _proposal_without_data(
        self, session: Session, stream_id: int, rules: RolloutRules, now_us: int
    ) -> Proposal | None:
        if rules.policy.value.on_no_data == "hold" or rules.policy.value.mode == "Off":
            return None
        horizon = horizon_of(session, stream_id, rules.slo.value.horizon_ms)
        if horizon is None:
            return None
        progress = progress_in(session, horizon, now_us, self.kept)
        held_ms = bound_held(session, horizon).bound_ms
        return propose_without_data(rules.policy.value, progress, held_ms, horizon.newest.id)
