"""What the rows of joined streams need together, kept in memory and moved on with the reports that came since.

It is counted from the reports as they were sent, which takes two seconds for 1,000 batches of two streams. So it is
kept, in blocks of batches, and all sides of a join share it. After a restart it is counted from the store again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Row, bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.reports.stored_bodies import clocks_of, stored_report
from tidemark.models.base.text import plural
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.recommend.choice import rounded_up
from tidemark.models.recommend.joint_bounds import JointBounds, JointChoice, bounds_to_use
from tidemark.models.specs.slo import JoinSlo

MAX_BATCHES = 1_000
"""How many of the newest batches count at most, but for the rest of a block."""

_BLOCK = 50
"""Batches of a block, which counts as long as one of them is within the horizon."""

_ON_THE_WAY = 10
"""Batches for which a side's report may still be on its way while another side's is here."""

_CHOICE_US = 300_000_000
"""How far evidence has to move on until bounds that still meet the SLO are chosen anew: it is the most work."""

_MAX_JOINS = 500
"""For how many joins evidence is kept: some megabytes of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEvidence:
    """What is known of the streams of a query together."""

    needs: JointNeeds
    """The needs of their rows."""
    choice: JointChoice | None = None
    """The bounds chosen by them, rounded up; None without enough evidence."""
    unknown: str | None = None
    """Why they say nothing about now; None when they do."""
    batches: int = 0
    """Batches that count: those that every stream reported, and whose reports are kept."""
    missing_batches: int = 0
    """Batches between them that do not count."""
    from_us: int | None = None
    """Trigger time of the first of them, in microseconds; None without any."""
    to_us: int | None = None
    """Trigger time of the last."""
    unknown_rows: int = 0
    """Rows in them whose need is not known."""


_Facts = Row[int, int, int, int | None, int, int, int | None]
"""Columns of ``_REPORTS``."""


@dataclass(slots=True)
class _Block:
    needs: JointNeeds
    seen_us: dict[int, int] = field(default_factory=dict)
    """By batch, its trigger time."""
    unknown_rows: int = 0


class _CachedJoin:
    """What is kept of the streams of one query.

    Args:
        query_id: the query's persistent id.
        horizon_ms: how far back to count, in milliseconds.
    """

    def __init__(self, streams: Sequence[StreamRow], query_id: str, horizon_ms: int) -> None:
        self.query_id = query_id
        self._names = {stream.id: stream.stream for stream in streams}
        self._nothing = JointNeeds.nothing(list(self._names.values()))
        self._horizon_us = horizon_ms * 1_000
        self._blocks: dict[int, _Block] = {}
        self._waiting: defaultdict[int, dict[int, _Facts]] = defaultdict(dict)
        self._read_until = dict.fromkeys(self._names, 0)
        self._found: tuple[JoinSlo, JointEvidence] | None = None

    def move_on(self, session: Session, newest: Sequence[ReportRow]) -> None:
        """Count the reports that came since, given the newest one of each stream."""
        last_batch = max(row.batch_id for row in newest)
        which = {
            "query": self.query_id,
            "from": max(row.seen_us for row in newest) - self._horizon_us,
            "batch": last_batch - MAX_BATCHES,
        }
        for stream_id, read_until in self._read_until.items():
            wanted = _NEW_REPORTS if read_until else _REPORTS
            for row in session.execute(wanted, {**which, "stream": stream_id, "after": read_until}):
                self._waiting[row.batch_id][stream_id] = row
                self._read_until[stream_id] = max(self._read_until[stream_id], row.id)
        whole = [number for number, sides in self._waiting.items() if len(sides) == len(self._names)]
        for first in range(0, len(whole), _BLOCK):
            self._count(session, whole[first : first + _BLOCK])
        self._forget(last_batch)

    def _count(self, session: Session, numbers: Sequence[int]) -> None:
        """Count batches that every stream has reported."""
        self._found = None
        batches = {number: self._waiting.pop(number) for number in numbers}
        ids = [row.id for sides in batches.values() for row in sides.values()]
        bodies = dict(session.execute(_BODIES, {"reports": ids}).all())
        counted: defaultdict[int, list[JointNeeds]] = defaultdict(list)
        for number, sides in batches.items():
            rows = [sides[stream_id] for stream_id in self._names]
            if not all(row.id in bodies for row in rows):
                continue
            block = self._blocks.setdefault(number // _BLOCK, _Block(self._nothing))
            block.seen_us[number] = max(row.seen_us for row in rows)
            block.unknown_rows += sum(row.need_unknown_rows for row in rows)
            reports = [stored_report(bodies[row.id]) for row in rows]
            bases_ms, clocks = [row.need_base_ms for row in rows], [clocks_of(row) for row in rows]
            counted[number // _BLOCK].append(JointNeeds.of_batch(reports, bases_ms, clocks))
        for position, parts in counted.items():
            block = self._blocks[position]
            block.needs = JointNeeds.merged([block.needs, *parts])

    def _forget(self, last_batch: int) -> None:
        """Drop the blocks that are older than the horizon, and what waits before the first that is left."""
        to_us = max((max(block.seen_us.values()) for block in self._blocks.values()), default=0)
        for position, block in [*self._blocks.items()]:
            recent = max(block.seen_us.values()) > to_us - self._horizon_us
            if not recent or max(block.seen_us) <= last_batch - MAX_BATCHES:
                del self._blocks[position]
                self._found = None
        first = min(self._blocks, default=0) * _BLOCK
        for number in [number for number in self._waiting if number < max(first, last_batch - MAX_BATCHES)]:
            del self._waiting[number]

    def evidence(self, slo: JoinSlo, chosen: JointChoice | None) -> JointEvidence:
        """Return what is known, and the bounds chosen by it, given those that were chosen before."""
        # The sides of a join are decided one after the other, mostly with nothing new between them.
        if self._found is None or self._found[0] != slo or self._found[1].choice != chosen:
            self._found = slo, self._summed_up(slo, chosen)
        return self._found[1]

    def _summed_up(self, slo: JoinSlo, chosen: JointChoice | None) -> JointEvidence:
        seen_us = {
            number: at_us for block in self._blocks.values() for number, at_us in block.seen_us.items()
        }
        if not seen_us:
            return JointEvidence(needs=self._nothing)
        to_us = max(seen_us.values())
        needs = JointNeeds.concatenated(block.needs for block in self._blocks.values())
        return JointEvidence(
            needs=needs,
            choice=_chosen(needs, slo, chosen, to_us),
            batches=len(seen_us),
            missing_batches=sum(
                number not in seen_us for number in range(min(seen_us), max(seen_us) - _ON_THE_WAY)
            ),
            from_us=min(seen_us.values()),
            to_us=to_us,
            unknown_rows=sum(block.unknown_rows for block in self._blocks.values()),
        )


def _chosen(needs: JointNeeds, slo: JoinSlo, chosen: JointChoice | None, at_us: int) -> JointChoice | None:
    before = None if chosen is None else chosen.bounds
    choose_anew = chosen is None or at_us - chosen.at_us >= _CHOICE_US
    bounds = bounds_to_use(needs, before, slo.target_ppm, slo.confidence_ppm, choose_anew=choose_anew)
    if bounds is None or (bounds is before and not choose_anew):
        return None if bounds is None else chosen
    rounded = JointBounds(tuple(map(rounded_up, bounds.bounds_ms)), rounded_up(bounds.common_ms))
    return JointChoice(rounded, at_us)


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cached: _CachedJoin | None = None


class JoinCache:
    """Keeps the evidence on joins. Safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[tuple[int, ...], int], _Entry] = {}

    def evidence(
        self,
        session: Session,
        streams: Sequence[StreamRow],
        newest: Sequence[ReportRow],
        slo: JoinSlo,
        chosen: JointChoice | None,
    ) -> JointEvidence:
        """Return what is known of the streams of a query together, and the bounds that an SLO chooses by it.

        Args:
            newest: the newest report of each, all of one query.
            slo: the SLO on their joined output.
            chosen: the bounds chosen before under this SLO; None without any.
        """
        key = tuple(stream.id for stream in streams), slo.horizon_ms
        with self._lock:
            if key not in self._kept and len(self._kept) >= _MAX_JOINS:
                del self._kept[next(iter(self._kept))]
            entry = self._kept.setdefault(key, _Entry())
        with entry.lock:
            # What fails half-way is counted again.
            cached, entry.cached = entry.cached, None
            if cached is None or cached.query_id != newest[0].query_id:
                cached = _CachedJoin(streams, newest[0].query_id, slo.horizon_ms)
            cached.move_on(session, newest)
            evidence = cached.evidence(slo, chosen)
            entry.cached = cached
        names = [stream.stream for stream in streams]
        return replace(evidence, unknown=_silent(names, [row.batch_id for row in newest]))


def _silent(names: Sequence[str], last_batches: Sequence[int]) -> str | None:
    """Return which stream reports no more while another one does, given the newest batch of each."""
    newest = max(last_batches)
    for name, last in zip(names, last_batches, strict=True):
        if newest - last > _ON_THE_WAY:
            return f"{name} has not reported the last {plural(newest - last, 'batch', 'batches')}"
    return None


# Built once: building them takes longer than running them. The ids of a stream's reports ascend as they are committed;
# the first read does not name them, so that it goes by the batches and not through all of the stream's reports.
_REPORTS = select(
    ReportRow.id,
    ReportRow.batch_id,
    ReportRow.seen_us,
    ReportRow.need_base_ms,
    ReportRow.need_unknown_rows,
    ReportRow.latest_us,
    ReportRow.driver_ahead_us,
).where(
    ReportRow.stream_id == bindparam("stream"),
    ReportRow.query_id == bindparam("query"),
    ReportRow.batch_id > bindparam("batch"),
    ReportRow.seen_us > bindparam("from"),
)
_NEW_REPORTS = _REPORTS.where(ReportRow.id > bindparam("after"))
_BODIES = select(ReportBodyRow.report_id, ReportBodyRow.body).where(
    ReportBodyRow.report_id.in_(bindparam("reports", expanding=True))
)
