"""Deletes a stream on request."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.etags import IfMatch, check_match, etag
from tidemark.controller.api.parameters import DryRun, NeededReason, WhichStream
from tidemark.controller.api.schemas.fleet import StreamDeleted
from tidemark.controller.forgetting.delete_stream import (
    check_quiet,
    delete_stream,
    held_of,
    version_of,
)
from tidemark.controller.specs.store import check_not_joined, get_slo
from tidemark.controller.streams.store import lock_known_stream

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_WhileReporting = Annotated[
    bool,
    Query(
        alias="whileReporting",
        description="Whether to delete it although its job still reports; it begins anew with the next report.",
    ),
]


@router.delete(
    "",
    operation_id="deleteStream",
    summary="Delete a stream",
    responses=answers("StreamDeleted", 404, 409, 412, 422, 428, 503, kinds={409: "stream-reports"}),
)
def delete(
    which: WhichStream,
    service: TheService,
    response: Response,
    *,
    reason: NeededReason,
    dry_run: DryRun,
    while_reporting: _WhileReporting = False,
    if_match: IfMatch = None,
) -> StreamDeleted:
    """Delete a stream with all of its data, its SLO, its policy and the pin on it alone. It cannot be undone.

    It is refused while the job still reports, unless the request says otherwise. A dry run answers what would be
    deleted, with the ETag that If-Match has to name. The event of the deletion stays in the events of the fleet. The
    rows themselves are deleted step by step within the next minutes.
    """
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream = lock_known_stream(session, which.job, which.stream)
        stream_id, version = stream.id, etag(version_of(session, stream))
        check_match(if_match, version, "this stream", required=not dry_run)
        check_not_joined(session, get_slo(session, stream_id))
        if not while_reporting:
            check_quiet(session, stream, now_us, service.kept)
        held = held_of(session, stream) if dry_run else delete_stream(session, stream, reason, now_us)
    if not dry_run:
        service.decider.forget(stream_id)
        service.database.answers_changed()
    response.headers["ETag"] = version
    return StreamDeleted(job=which.job, stream=which.stream, dry_run=dry_run, **held)
