"""What jobs send: reports and acknowledgements. An answer of 200 or 201 means that it is in the store, committed."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Response, status
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter

from tidemark.controller.api.bodies import ReportBody, parse_body
from tidemark.controller.api.dependencies import CountRejections, TheService
from tidemark.controller.api.documented import answers, takes
from tidemark.controller.api.names import StreamPath, WhichStream
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.schemas import Receipt
from tidemark.controller.bounds.acknowledgements import take_acknowledgement
from tidemark.controller.intake.checks import check_acknowledgement, check_report
from tidemark.controller.rollout.republish import republish
from tidemark.controller.specs.store import get_policy
from tidemark.controller.streams.store import lock_stream
from tidemark.models.wire import Acknowledgement, Report

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["jobs"])

_REPORT = TypeAdapter(ReportBody)
_ACKNOWLEDGEMENT = TypeAdapter(Acknowledgement)


_PARSED_AT_ONCE_BYTES = 256 * 1024
"""Bodies up to this size are parsed on the event loop, in some milliseconds; larger ones in a thread."""


async def _report_of(which: WhichStream, body: JsonBody) -> Report:
    if len(body) <= _PARSED_AT_ONCE_BYTES:
        return _checked_report(which, body)
    return await run_in_threadpool(_checked_report, which, body)


def _checked_report(which: StreamPath, body: bytes) -> Report:
    report = parse_body(_REPORT, body)
    check_report(report, which.job, which.stream)
    return report


@router.post(
    "/reports",
    operation_id="postReport",
    summary="Report a batch",
    status_code=status.HTTP_201_CREATED,
    dependencies=[CountRejections],
    responses=answers("Receipt", 200, 201, 400, 409, 413, 415, 422, 503),
    openapi_extra=takes("ReportBody"),
)
async def post_report(
    which: WhichStream,
    report: Annotated[Report, Depends(_report_of)],
    service: TheService,
    response: Response,
) -> Receipt:
    """Store the report of one batch, once: a repeat with the same content gets 200 and changes nothing."""
    receipt = await asyncio.wrap_future(service.reports.take(report))
    if not receipt.duplicate:
        service.database.answers_changed()
    if receipt.duplicate:
        response.status_code = status.HTTP_200_OK
    return Receipt(
        job=which.job, stream=which.stream, received_us=receipt.received_us, duplicate=receipt.duplicate
    )


async def _acknowledgement_of(body: JsonBody) -> Acknowledgement:
    found = parse_body(_ACKNOWLEDGEMENT, body)
    check_acknowledgement(found)
    return found


@router.post(
    "/acks",
    operation_id="postAcknowledgement",
    summary="Acknowledge a bound",
    status_code=status.HTTP_201_CREATED,
    responses=answers("Receipt", 200, 201, 400, 413, 415, 422, 503),
    openapi_extra=takes("Acknowledgement"),
)
def post_acknowledgement(
    which: WhichStream,
    answer: Annotated[Acknowledgement, Depends(_acknowledgement_of)],
    service: TheService,
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
    return Receipt(
        job=which.job, stream=which.stream, received_us=receipt.received_us, duplicate=receipt.duplicate
    )
