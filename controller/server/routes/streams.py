"""Routes of one stream: its status, its predictions, its deletion."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import PredictionRow
from tidemark.controller.control.decide.predictions import list_predictions
from tidemark.controller.control.retention.adopt_stream import adopt_stream
from tidemark.controller.control.retention.delete_stream import (
    check_quiet,
    delete_stream,
    held_of,
    version_of,
)
from tidemark.controller.server.http.cursors import ThePaging, decode_number_cursor
from tidemark.controller.server.http.etags import IfMatch, IfNoneMatch, answered, etag
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import DryRun, NeededReason, TheService, WhichStream
from tidemark.controller.server.schemas.bounds import Prediction, PredictionPage, Realised
from tidemark.controller.server.schemas.fleet import StreamAdopted, StreamDeleted
from tidemark.controller.server.schemas.streams import StreamStatus
from tidemark.controller.server.schemas.views import stream_status
from tidemark.controller.specs.change import ChangeRequest
from tidemark.controller.specs.store import check_not_joined, get_slo
from tidemark.controller.specs.streams import get_stream, lock_known_stream
from tidemark.models.base.defaults import PREDICTION_MIN_ROWS

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "", response_model=StreamStatus, **says("getStream", "Status of a stream", "StreamStatus", 304, 404)
)
def get_status(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Say all that is known of a stream: what is recommended, applied and effective, on what evidence and why."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        found = stream_status(
            session,
            stream_id,
            service.clock(),
            service.cache,
            destinations=service.destinations,
            may_link_to=service.settings.may_link_to,
        )
    return answered(found, if_none_match)


@router.get("/predictions", **says("listPredictions", "List predictions", "PredictionPage", 404))
def list_all(which: WhichStream, service: TheService, paging: ThePaging) -> PredictionPage:
    """List the prediction for each published bound and how it came out, the newest first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        rows = list_predictions(session, stream_id, before, paging.rows)
    page, next_cursor = paging.cut(rows, lambda row: (row.generation,))
    return PredictionPage(
        predictions=[_prediction(row) for row in page], min_rows=PREDICTION_MIN_ROWS, next_cursor=next_cursor
    )


def _prediction(row: PredictionRow) -> Prediction:
    return made_of(
        Prediction,
        row.expected,
        generation=row.generation,
        made_us=row.made_us,
        realised=Realised.of(
            row,
            rows=row.judged.rows,
            late_min=row.judged.late_min,
            late_max=row.judged.late_max,
            completeness_ppm=row.realised_ppm,
        ),
    )


@router.post(
    ":adopt",
    **says(
        "adoptStream",
        "Let a stream go on as another one",
        "StreamAdopted",
        404,
        409,
        kinds={409: "stream-reports"},
    ),
)
def adopt(
    which: WhichStream,
    service: TheService,
    former: Annotated[
        str, Query(description="Name of the job's stream that it was, and that is silent now.")
    ],
    *,
    reason: NeededReason,
    dry_run: DryRun,
) -> StreamAdopted:
    """Give a stream that began anew the SLO, policy, approvals, rollouts and history of the one that it was.

    What was set for it meanwhile goes, but for a pin; its reports stay. The other one has its name from then on.
    """
    with service.database.write(keep=not dry_run) as session:
        rows = {name: lock_known_stream(session, which.job, name) for name in sorted({which.stream, former})}
        stream, old = rows[which.stream], rows[former]
        gone, limits = stream.id, service.database.limits
        reports = adopt_stream(session, stream, old, reason, service.clock(), limits)
        kept = old.id
    if not dry_run:
        for stream_id in (gone, kept):
            service.decider.forget(stream_id)
        service.database.answers_changed()
    return StreamAdopted(job=which.job, stream=which.stream, former=former, reports=reports, dry_run=dry_run)


_WhileReporting = Annotated[
    bool,
    Query(
        alias="whileReporting",
        description="Whether to delete it although its job still reports; it begins anew with the next report.",
    ),
]


@router.delete(
    "",
    **says(
        "deleteStream", "Delete a stream", "StreamDeleted", 404, 409, 412, 428, kinds={409: "stream-reports"}
    ),
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
        stream_id, version = stream.id, version_of(session, stream)
        ChangeRequest(session, now_us, reason, if_match).check(version, "this stream", required=not dry_run)
        check_not_joined(session, get_slo(session, stream_id))
        if not while_reporting:
            check_quiet(session, stream, now_us, service.cache)
        held = held_of(session, stream) if dry_run else delete_stream(session, stream, reason, now_us)
    if not dry_run:
        service.decider.forget(stream_id)
        service.database.answers_changed()
    response.headers["ETag"] = etag(version)
    return StreamDeleted(job=which.job, stream=which.stream, dry_run=dry_run, **held)
