"""The bound of a job: answered at once, or when it changes."""

from __future__ import annotations

import asyncio
from functools import partial

from fastapi import APIRouter, Response, status

from tidemark.controller.access.authorize import Caller, TheCaller
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.etags import IfNoneMatch, etag, is_current
from tidemark.controller.api.names import StreamPath, WhichStream
from tidemark.controller.api.prefer import Prefer, wait_seconds
from tidemark.controller.bounds.versions import versions
from tidemark.controller.bounds.views import bound_answer
from tidemark.controller.service import Service
from tidemark.controller.streams.store import find_stream
from tidemark.models.protocol.messages import BoundAnswer

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["jobs"])


@router.get(
    "/bound",
    operation_id="getBound",
    summary="Ask for the bound",
    response_model=BoundAnswer,
    responses=answers("BoundAnswer", 304, 422, 503),
)
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
