"""The emitter: sends OpenLineage events on the runs of streams, of which the replica with the stream's lease tells.

It works in a thread of its own. What could not be sent is not kept: the next event says the same anew, and more.
"""

from __future__ import annotations

import logging
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
from tidemark.controller.base.db.tables import KNOWN, AcknowledgementRow, OverviewRow, ReportRow, StreamRow
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.reports.store import newest_report
from tidemark.controller.specs.store import get_slo
from tidemark.controller.view.lineage.events import StreamRun, run_event
from tidemark.controller.view.state.windows import read_windows, window_of
from tidemark.models.completeness.estimate import DEFAULT_SHARE_PPM
from tidemark.models.protocol.datasets import NO_DATASETS

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 60.0
"""Time between two looks at the streams: no run has more events."""
_STOP_TIMEOUT_SECONDS = 15.0
"""How long a shutdown waits for the event under way."""

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
        self._said: dict[int, _Said] = {}
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
        self._said = {stream_id: self._said[stream_id] for stream_id in mine if stream_id in self._said}
        for stream_id in mine:
            if self._thread.stopping.is_set():
                return
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

    def _look(self, stream_id: int) -> None:
        with self._database.read() as session:
            newest = newest_report(session, stream_id)
            if newest is None:
                return
            overview = session.get(OverviewRow, stream_id)
            windows = None if overview is None else overview.windows
            closed_us, settled_us = (
                (None, None) if windows is None else (windows.closed_us, windows.settled_us)
            )
            news, said = (newest.run_id, closed_us, settled_us), self._said.get(stream_id)
            if news == said:
                return
            run = self._run_of(session, newest, closed_us, settled_us)
        events: list[RunEvent] = []
        if said is None or said[0] != run.run_id:
            bare = replace(run, closed=None)
            events.append(run_event(bare, RunState.START, run.started_us, self._address))
        events.append(run_event(run, RunState.RUNNING, self._clock(), self._address))
        for event in events:
            self._client.emit(event)
            self._counters.sent.inc()
        self._said[stream_id] = news

    def _run_of(
        self, session: Session, newest: ReportRow, closed_us: int | None, settled_us: int | None
    ) -> StreamRun:
        """Return the newest run of a stream."""
        stream = session.get_one(StreamRow, newest.stream_id)
        slo = get_slo(session, stream.id)
        asked_ppm = DEFAULT_SHARE_PPM if slo is None else slo.value.target_ppm
        stored = None if closed_us is None else read_windows(session, stream.id, self._clock(), self._cache)
        began = select(func.min(AcknowledgementRow.applied_us)).where(
            AcknowledgementRow.stream_id == stream.id, AcknowledgementRow.run_id == newest.run_id
        )
        return StreamRun(
            job=stream.job,
            stream=stream.stream,
            run_id=newest.run_id,
            started_us=session.scalar(began) or newest.seen_us,
            seen_us=newest.seen_us,
            datasets=stream.datasets or NO_DATASETS,
            closed=None if closed_us is None else window_of(stored, closed_us, asked_ppm),
            settled_us=settled_us,
        )
