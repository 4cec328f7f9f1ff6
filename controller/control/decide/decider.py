"""Decides streams: load what counts, decide, and write the decision in one transaction."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.base.background import GoOn
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import LeaseKeeper, confirm
from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.decide.decision import (
    StreamDecision,
    decide,
    propose_for_silence,
    steer,
    write,
)
from tidemark.controller.control.decide.load import Loaded, Version, load, read_shortest, read_version
from tidemark.controller.control.rollout.advance import advance_rollout, is_due
from tidemark.controller.control.rollout.propose import changes_published
from tidemark.controller.control.rollout.store import read_rules
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.reports.store import newest_report
from tidemark.controller.specs.store import get_slo
from tidemark.controller.specs.streams import get_stream
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.specs.slo import Slo


class Decider:
    """Decides streams, and remembers which versions are decided already. Safe to call from several threads."""

    def __init__(
        self, database: Database, leases: LeaseKeeper, cache: EvidenceCache, fleet: FleetLimits
    ) -> None:
        self._database = database
        self.fleet = fleet
        self.leases = leases
        self.cache = cache
        self._decided: dict[int, Version] = {}

    def decide(self, stream_id: int, now_us: int, go_on: GoOn = lambda: None) -> bool:
        """Decide one stream; return False when nothing it depends on has changed, or another process decides it.

        An open rollout is advanced in both cases where this process decides.

        Args:
            go_on: called between the steps; what it raises ends the decision, and nothing is written.

        Raises:
            LeaseLostError: when another process has taken the stream over; nothing was written.
        """
        lease = self.leases.lease_of(stream_id)
        if lease is None:
            return False
        with self._database.read() as session:
            loaded = self._load(session, stream_id, now_us, unless=self._decided.get(stream_id))
            if loaded is None and not self._is_due(session, stream_id, now_us):
                return False
        go_on()
        decision = None if loaded is None else decide(loaded)
        go_on()
        with self._database.write() as session:
            stream = SteeredStream.lock(session, stream_id, now_us)
            written = stream is not None and self._write(stream, decision)
            confirm(session, stream_id, lease)
            go_on()
        if stream is not None and stream.has_published:
            self._database.answers_changed()
        if written and loaded is not None:
            self._decided[stream_id] = loaded.version
        return loaded is not None

    def decide_within(self, session: Session, stream_id: int, now_us: int) -> None:
        """Decide one stream within the transaction of a write, which may be rolled back, so it is not remembered.

        All that it rests on is read under the stream's lock: that takes no lease.
        """
        stream = SteeredStream.lock(session, stream_id, now_us)
        loaded = None if stream is None else self._load(session, stream_id, now_us)
        if stream is not None and loaded is not None:
            self._write(stream, decide(loaded))

    def read_ahead(self, job: str, stream: str, slo: Slo | None = None) -> None:
        """Read the evidence for a decision that a write is about to make, so that its locks are not held for that.

        Args:
            slo: the SLO that is written; None for the one that it has.
        """
        with self._database.read() as session:
            row = get_stream(session, job, stream)
            newest, own = newest_report(session, row.id), get_slo(session, row.id)
            chosen = slo if slo is not None or own is None else own.value
            if newest is not None and chosen is not None:
                read_shortest(session, chosen, newest, self.cache)

    def forget(self, stream_id: int) -> None:
        """Drop what is remembered of a stream that was deleted."""
        self.cache.forget(stream_id)
        self._decided.pop(stream_id, None)

    def _load(
        self, session: Session, stream_id: int, now_us: int, unless: Version | None = None
    ) -> Loaded | None:
        """Return all that a decision is made from; None without it, or while its version is still ``unless``."""
        version = read_version(session, stream_id)
        if version == unless:
            return None
        stream = SteeredStream(session, session.get_one(StreamRow, stream_id), now_us, locked=False)
        return load(stream, version, self.cache)

    def _is_due(self, session: Session, stream_id: int, now_us: int) -> bool:
        """Return whether time alone changes something: an open rollout, or the bound without data."""
        stream = SteeredStream(session, session.get_one(StreamRow, stream_id), now_us, locked=False)
        rules, row = read_rules(stream, self.fleet), stream.open_rollout
        if rules is None:
            return False
        if row is not None and is_due(stream, row, rules):
            return True
        proposal = propose_for_silence(stream, rules, self.cache)
        return proposal is not None and changes_published(stream, rules, proposal)

    def _write(self, stream: SteeredStream, decision: StreamDecision | None) -> bool:
        """Write a decision, or without one what time alone changes; return whether a decision was written."""
        rules = read_rules(stream, self.fleet)
        if rules is None:
            return False
        if decision is not None:
            return write(stream, rules, decision)
        proposal = propose_for_silence(stream, rules, self.cache)
        if proposal is None:
            advance_rollout(stream, rules)
        else:
            steer(stream, rules, proposal)
        return False
