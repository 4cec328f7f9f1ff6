"""Routes that jobs call: reports, acknowledgements and bounds."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response, status
from pydantic import TypeAdapter

from tidemark.controller.base.errors import StoreUnavailableError, TidemarkError
from tidemark.controller.control.bounds.acknowledgements import take_acknowledgement
from tidemark.controller.control.bounds.watch import versions
from tidemark.controller.control.rollout.actions import republish
from tidemark.controller.reports.checks import check_acknowledgement, check_report
from tidemark.controller.reports.sent_bodies import parse_report, parse_sent
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.controller.server.http.authorize import Caller, TheCaller
from tidemark.controller.server.http.etags import IfNoneMatch, etag, is_current
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import (
    Prefer,
    StreamPath,
    TheService,
    WhichStream,
    wait_seconds,
    which_stream,
)
from tidemark.controller.server.http.request_body import (
    DirectRoute,
    JsonBody,
    check_request,
    parse_aside,
    read_json,
    receipt_answer,
)
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.bounds import Receipt
from tidemark.controller.server.schemas.views import bound_answer
from tidemark.controller.specs.store import get_policy
from tidemark.controller.specs.streams import find_stream, lock_stream
from tidemark.models.base.text import format_number
from tidemark.models.protocol.messages import Acknowledgement, BoundAnswer, Report

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["jobs"])

_ACKNOWLEDGEMENT = TypeAdapter(Acknowledgement)


def _checked_report(job: str, stream: str, body: bytes) -> Report:
    report = parse_report(body)
    check_report(report, job, stream)
    return report


_STORE_SECONDS = 15.0
"""How long a report waits for the store."""


async def _taken(service: Service, report: Report) -> StoredReceipt:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(service.reports.take(report)), _STORE_SECONDS)
    except TimeoutError:
        detail = f"the report has waited {format_number(_STORE_SECONDS)} s for the store; send it again"
        raise StoreUnavailableError(detail) from None


async def post_report(request: Request) -> Response:
    """Store the report of one batch, once: a repeat with the same content gets 200 and changes nothing."""
    await check_request(request)
    service: Service = request.app.state.service
    which = await which_stream(**request.path_params)
    try:
        async with read_json(request) as body:
            report = await parse_aside(partial(_checked_report, which.job, which.stream), body)
        receipt = await _taken(service, report)
    except TidemarkError as error:
        service.intake.rejected.labels(error.kind).inc()
        raise
    if not receipt.duplicate:
        service.database.answers_changed()
    answer = receipt_answer(request, receipt)
    status_code = status.HTTP_200_OK if receipt.duplicate else status.HTTP_201_CREATED
    return Response(answer.model_dump_json(), status_code, media_type="application/json")


router.add_api_route(
    "/reports",
    post_report,
    methods=["POST"],
    dependencies=[Depends(which_stream)],
    route_class_override=DirectRoute,
    response_model=Receipt,
    **says("postReport", "Report a batch", "Receipt", 200, 201, 409, body="ReportBody"),
)


async def _acknowledgement_of(body: JsonBody) -> Acknowledgement:
    return await parse_aside(_checked_acknowledgement, body)


def _checked_acknowledgement(body: bytes) -> Acknowledgement:
    found = parse_sent(_ACKNOWLEDGEMENT, body)
    check_acknowledgement(found)
    return found


@router.post(
    "/acks",
    **says("postAcknowledgement", "Acknowledge a bound", "Receipt", 200, 201, body="Acknowledgement"),
)
def post_acknowledgement(
    which: WhichStream,
    answer: Annotated[Acknowledgement, Depends(_acknowledgement_of)],
    service: TheService,
    request: Request,
    response: Response,
) -> Receipt:
    """Store what a run of the job really applied, once; a job may acknowledge before its first report."""
    now_us = service.clock()
    with service.database.write() as session:
        stream = lock_stream(session, which.job, which.stream, service.database.limits)
        receipt = take_acknowledgement(session, stream.id, answer, now_us)
        if not receipt.duplicate:
            # For a job pinned to its ceiling, the new ceiling is published.
            session.flush()
            republish(session, stream.id, get_policy(session, stream.id).value, now_us)
    if not receipt.duplicate:
        service.database.answers_changed()
    if receipt.duplicate:
        response.status_code = status.HTTP_200_OK
    return receipt_answer(request, receipt)


@router.get("/bound", response_model=BoundAnswer, **says("getBound", "Ask for the bound", "BoundAnswer", 304))
async def get_bound(
    which: WhichStream,
    service: TheService,
    caller: TheCaller,
    response: Response,
    *,
    if_none_match: IfNoneMatch = None,
    prefer: Prefer = None,
) -> BoundAnswer | Response:
    """Return the bound to use, or why there is none; an unknown stream gets an answer too, not an error.

    With `Prefer: wait=N` and `If-None-Match` the answer is sent when it changes, or after N seconds at the latest.
    """
    wait = wait_seconds(prefer)
    headers = {} if wait is None else {"Preference-Applied": f"wait={wait}"}
    answer, version = await _answer(service, which, caller, if_none_match, wait or 0)
    if answer is None:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers={"ETag": etag(version), **headers})
    response.headers.update({"ETag": etag(version), **headers})
    return answer


async def _answer(
    service: Service, which: StreamPath, caller: Caller, if_none_match: str | None, wait: int
) -> tuple[BoundAnswer | None, str]:
    """Return the answer and its version; None when the caller still has it after ``wait`` seconds."""
    answer, version = await _shared(service, which)
    if not is_current(if_none_match, etag(version)):
        return answer, version
    clock = asyncio.get_running_loop().time
    until = clock() + wait
    if wait:
        with service.watch.waiter(which.job, which.stream, caller) as waiter:
            while clock() < until:
                # The bound may have changed before the wait began, or have changed back to what the caller has.
                waiter.forget()
                answer, version = await _shared(service, which)
                if not is_current(if_none_match, etag(version)):
                    return answer, version
                if not await waiter.changed(version, until - clock()):
                    break
    return None, version


async def _shared(service: Service, which: StreamPath) -> tuple[BoundAnswer, str]:
    """Return the current answer and its version; callers that ask at the same time share one read."""
    return await service.reads.read(("bound", which), partial(_read, service, which))


def _read(service: Service, which: StreamPath) -> tuple[BoundAnswer, str]:
    with service.database.read() as session:
        row = find_stream(session, which.job, which.stream)
        answer = bound_answer(session, which.job, which.stream, row)
        name = which.job, which.stream
        return answer, versions(session, [name])[name]
