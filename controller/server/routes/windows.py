"""Routes of single windows: how complete each is, and a long poll until a share has come."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import WithJsonSchema
from sqlalchemy.orm import Session

from tidemark.controller.base.clock import utc_text
from tidemark.controller.base.errors import InvalidParameterError
from tidemark.controller.evidence.window_ages import StoredWindows, first_end_us, first_known_us, tally_of
from tidemark.controller.reports.store import newest_report_id
from tidemark.controller.server.http.authorize import TheCaller
from tidemark.controller.server.http.cursors import ThePaging, decode_number_cursor
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import (
    MAX_WAIT_SECONDS,
    StreamPath,
    TheService,
    WhichStream,
    wait_seconds,
)
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.windows import Window, WindowPage
from tidemark.controller.specs.store import get_slo
from tidemark.controller.specs.streams import get_stream
from tidemark.controller.view.state.windows import (
    read_windows,
    state_of,
    window_of,
)
from tidemark.models.base.duration import format_duration
from tidemark.models.base.ranges import MAX_TIME_US
from tidemark.models.base.target import PPM
from tidemark.models.completeness.estimate import DEFAULT_SHARE_PPM
from tidemark.models.completeness.outcome import WindowState

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_LOOK_SECONDS = 1.0
"""Time between two looks at the store while a request waits."""

_State = Annotated[WindowState | None, Query(description="Only windows in this state.")]
_FromUs = Annotated[
    int | None, Query(ge=0, le=MAX_TIME_US, description="Only windows that end after this time.")
]
_ToUs = Annotated[int | None, Query(ge=0, le=MAX_TIME_US, description="Only windows that end by this time.")]
_SharePpm = Annotated[
    int | None,
    Query(
        gt=0,
        le=PPM,
        description="The share asked for, in parts per million; the default is the target of the SLO, or 99.5 %.",
    ),
]
_EndUs = Annotated[
    int,
    Path(
        description="End of the window, in microseconds since the epoch.",
        examples=[1_767_225_660_000_000],
        ge=0,
        le=MAX_TIME_US,
    ),
]
_SpanUs = Annotated[
    int,
    Query(ge=0, le=MAX_TIME_US, description="Length of the windows that are shown as one; 0 for one window."),
]
_Prefer = Annotated[
    list[str] | None,
    WithJsonSchema({"type": "string"}),
    Header(
        description="wait=N holds the answer back until the share is Reached or Unreachable, for at most N seconds (at "
        f"most {MAX_WAIT_SECONDS}).",
        examples=["wait=30"],
    ),
]


@router.get("/windows", **says("listWindows", "List windows", "WindowPage", 404))
def list_all(
    which: WhichStream,
    service: TheService,
    paging: ThePaging,
    *,
    state: _State = None,
    from_us: _FromUs = None,
    to_us: _ToUs = None,
    share_ppm: _SharePpm = None,
) -> WindowPage:
    """List the stream's windows that end in a span, the newest first: what has come, what counts, what is to come.

    The newest six hundred are listed.
    """
    before_us = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        _, asked_ppm, stored = _read(session, service, which, share_ppm)
    if stored is None:
        return WindowPage(windows=[], next_cursor=None)
    ends_us = [
        end_us
        for end_us in reversed(stored.ledger)
        if (before_us is None or end_us < before_us)
        and (from_us is None or end_us > from_us)
        and (to_us is None or end_us <= to_us)
        and (state is None or state_of(stored.newest, end_us) == state)
    ]
    page, next_cursor = paging.cut(ends_us, lambda end_us: (end_us,))
    return WindowPage(
        windows=[window_of(stored, end_us, asked_ppm) for end_us in page], next_cursor=next_cursor
    )


@router.get("/windows/{end_us}", response_model=Window, **says("getWindow", "Show a window", "Window", 404))
async def get_window(
    which: WhichStream,
    end_us: _EndUs,
    service: TheService,
    caller: TheCaller,
    response: Response,
    *,
    share_ppm: _SharePpm = None,
    span_us: _SpanUs = 0,
    prefer: _Prefer = None,
) -> Window:
    """Show the window that ends at a time, also before its first row; or as one the windows of a span.

    With `Prefer: wait=N` the answer is sent when the share is reached or cannot be any more, or after N seconds at the
    latest.
    """
    wait = wait_seconds(prefer)
    if wait is not None:
        response.headers["Preference-Applied"] = f"wait={wait}"
    asked, clock = (which, end_us, share_ppm, span_us), asyncio.get_running_loop().time
    until = clock() + (wait or 0)
    read_id, found = await service.reads.read(("window", *asked), partial(_window, service, *asked))
    with service.watch.callers.taken(caller, 1 if wait else 0):
        while found.outcome not in _ENDED and clock() < until and not service.watch.released:
            await asyncio.sleep(_LOOK_SECONDS)
            if await service.reads.read(("newest", which), partial(_newest, service, which)) != read_id:
                read_id, found = await service.reads.read(
                    ("window", *asked), partial(_window, service, *asked)
                )
    return found


_ENDED = {"Reached", "Unreachable"}
"""Outcomes that stay."""


def _window(
    service: Service, which: StreamPath, end_us: int, share_ppm: int | None, span_us: int
) -> tuple[int, Window]:
    """Return the newest report's id, and the window, or those of a span, as of then."""
    with service.database.read() as session:
        newest_id, asked_ppm, stored = _read(session, service, which, share_ppm)
        if stored is None:
            return newest_id, window_of(stored, end_us, asked_ppm)
        operator, arrivals = stored.newest.operator, stored.arrivals
        next_us = first_end_us(operator, end_us - 1)
        if next_us != end_us:
            reason = f"no {operator} ends then; the next one ends {utc_text(next_us)}, {next_us}"
            raise InvalidParameterError.at("end_us", reason)
        if span_us % arrivals.step_us or (span_us and arrivals.span_us != arrivals.step_us):
            reason = f"no whole number of windows fills {format_duration(span_us)}: each is a {operator}"
            raise InvalidParameterError.at("span_us", reason)
        first_us = first_known_us(session, stored.newest.stream_id) if span_us else None
        if first_us is not None and first_us > end_us - span_us + arrivals.step_us:
            # What came before would be missing in the sum, without a word.
            reason = f"of its time only what is after {utc_text(first_us - arrivals.step_us)} is known"
            return newest_id, window_of(stored, end_us, asked_ppm, unknown=reason)
        tally = tally_of(session, stored.newest.stream_id, end_us - span_us, end_us)
        return newest_id, window_of(stored, end_us, asked_ppm, span_us, tally)


def _read(
    session: Session, service: Service, which: StreamPath, share_ppm: int | None
) -> tuple[int, int, StoredWindows | None]:
    """Return the newest report's id, the share asked for, and the stream's windows."""
    stream_id = get_stream(session, which.job, which.stream).id
    slo = get_slo(session, stream_id)
    asked_ppm = share_ppm or (DEFAULT_SHARE_PPM if slo is None else slo.value.target_ppm)
    stored = read_windows(session, stream_id, service.clock(), service.cache)
    return newest_report_id(session, stream_id), asked_ppm, stored


def _newest(service: Service, which: StreamPath) -> int:
    with service.database.read() as session:
        return newest_report_id(session, get_stream(session, which.job, which.stream).id)
