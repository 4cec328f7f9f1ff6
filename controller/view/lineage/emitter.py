"""The emitter: sends OpenLineage events on the runs of streams, of which the replica with the stream's lease tells.

It works in a thread of its own. What could not be sent is not kept: the next event says the same anew, and more.
"""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent, RunState
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.background import TickingThread
from tidemark.controller.base.clock import Clock
from tidemark.controller.base.counters import LineageCounters
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import LeaseKeeper
from tidemark.controller.base.db.tables import KNOWN, AcknowledgementRow, StreamRow
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.reports.store import newest_report_id
from tidemark.controller.specs.store import get_slo
from tidemark.controller.view.lineage.events import StreamRun, run_event
from tidemark.controller.view.state.windows import read_windows, state_of, window_of
from tidemark.models.completeness.estimate import DEFAULT_SHARE_PPM
from tidemark.models.protocol.datasets import NO_DATASETS

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 60.0
"""Time between two looks at the streams: no run has more events."""
_STOP_TIMEOUT_SECONDS = 15.0
"""How long a shutdown waits for the event under way."""
_PAUSES = 4
"""How many times as long as a stream takes the next one waits: a fifth of a core at most is used."""

_Said = tuple[str, int | None, int | None]
"""The run, the newest closed window and the newest settled one."""


class LineageEmitter:
    """Sends the events.

    Args:
        leases: which streams are this process's.
        url: address of what takes the events; how it is asked besides, such as with a key, the client's own variables
            say.
        address: that of the controller, for browsers.
        clock: the wall time in microseconds.
    """

    def __init__(
        self,
        database: Database,
        leases: LeaseKeeper,
        cache: EvidenceCache,
        url: str,
        address: str,
        *,
        counters: LineageCounters,
        clock: Clock,
    ) -> None:
        self._database, self._leases, self._cache = database, leases, cache
        self._address, self._counters, self._clock = address, counters, clock
        self._client = OpenLineageClient(
            config={
                "transport": {"type": "http", "url": url, "retry": {"total": 0}},
                # The client would take the folder that the controller runs in for the job's code.
                "facets": {"source_code_location": {"disabled": True}},
            }
        )
        self._looked: dict[int, tuple[int, _Said | None]] = {}
        self._thread = TickingThread("lineage", self.tick, _EVERY_SECONDS, stop_seconds=_STOP_TIMEOUT_SECONDS)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Let the event under way end, and send no more."""
        self._thread.stop()

    def tick(self) -> None:
        """Send what is new of every stream of this process; end at the first event that nobody takes.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer.
        """
        with self._database.read() as session:
            stream_ids = session.scalars(select(StreamRow.id).where(KNOWN)).all()
        mine = [stream_id for stream_id in stream_ids if self._leases.lease_of(stream_id) is not None]
        self._looked = {stream_id: self._looked[stream_id] for stream_id in mine if stream_id in self._looked}
        for stream_id in mine:
            begun = time.perf_counter()
            try:
                self._look(stream_id)
            except OSError as error:  # as the client's are
                self._counters.failed.inc()
                # Their own text shows the address.
                _log.warning("lineage of stream %d is not sent: %s", stream_id, type(error).__name__)
                # An event that is refused holds no other one up.
                if getattr(error, "response", None) is None:
                    return
            except Exception:  # noqa: BLE001 - the other streams go on
                self._counters.failed.inc()
                _log.exception("lineage of stream %d is not known", stream_id)
            if self._thread.stopping.wait(_PAUSES * (time.perf_counter() - begun)):
                return

    def _look(self, stream_id: int) -> None:
        report_id, said = self._looked.get(stream_id, (0, None))
        with self._database.read() as session:
            newest_id = newest_report_id(session, stream_id)
            run = None if newest_id == report_id else self._run_of(session, stream_id)
        if run is None:
            return
        news = run.run_id, None if run.closed is None else run.closed.end_us, run.settled_us
        events: list[RunEvent] = []
        if said is None or said[0] != run.run_id:
            bare = replace(run, closed=None)
            events.append(run_event(bare, RunState.START, run.started_us, self._address))
        if said != news:
            events.append(run_event(run, RunState.RUNNING, self._clock(), self._address))
        for event in events:
            self._client.emit(event)
            self._counters.sent.inc()
        self._looked[stream_id] = newest_id, news

    def _run_of(self, session: Session, stream_id: int) -> StreamRun | None:
        """Return the newest run of a stream; None without a report."""
        stored = read_windows(session, stream_id, self._clock(), self._cache)
        if stored is None:
            return None
        stream, newest = session.get_one(StreamRow, stream_id), stored.newest
        slo = get_slo(session, stream_id)
        asked_ppm = DEFAULT_SHARE_PPM if slo is None else slo.value.target_ppm
        closed = [end_us for end_us in reversed(stored.ledger) if state_of(newest, end_us) == "Closed"]

        def is_settled(end_us: int) -> bool:
            found = window_of(stored, end_us, asked_ppm).estimate
            return found is not None and found.settled

        began = select(func.min(AcknowledgementRow.applied_us)).where(
            AcknowledgementRow.stream_id == stream_id, AcknowledgementRow.run_id == newest.run_id
        )
        return StreamRun(
            job=stream.job,
            stream=stream.stream,
            run_id=newest.run_id,
            started_us=session.scalar(began) or newest.seen_us,
            seen_us=newest.seen_us,
            datasets=stream.datasets or NO_DATASETS,
            closed=window_of(stored, closed[0], asked_ppm) if closed else None,
            settled_us=newest_settled(closed, is_settled),
        )


def newest_settled(ends_us: Sequence[int], is_settled: Callable[[int], bool]) -> int | None:
    """Return the end of the newest settled window, of those that end at times, the newest first; None without any.

    Those before a settled one are settled as well, but for the oldest, of which nothing is known. So it is looked for
    in steps that double, for an estimate takes milliseconds.
    """
    first, place = 0, 0
    while place < len(ends_us):
        if is_settled(ends_us[place]):
            return ends_us[bisect.bisect_left(ends_us, x=True, lo=first, hi=place, key=is_settled)]
        first, place = place + 1, 2 * place + 1
    return None
