"""Who calls, and what that allows."""

from __future__ import annotations

from typing import Annotated, get_args

from fastapi import APIRouter, Query

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.access.roles import Need, Reach, Right
from tidemark.controller.api.documented import answers
from tidemark.controller.api.schemas import Caller
from tidemark.models.names import MAX_LENGTH

router = APIRouter(tags=["tokens"])

_OverJob = Annotated[
    str | None, Query(max_length=MAX_LENGTH, description="Name of a job; leave it out for the whole fleet.")
]


@router.get(
    "/v1/caller", operation_id="getCaller", summary="Who calls", responses=answers("Caller", 422, 503)
)
def get_caller(principal: ThePrincipal, job: _OverJob = None) -> Caller:
    """Return who sends the request, and which rights that gives: over a job, or without `job` over the whole fleet."""
    reach: Reach = "fleet" if job is None else "job"
    rights = [right for right in get_args(Right) if principal.may(Need(right, reach), job)]
    return Caller(name=principal.name, role=principal.role, rights=rights)
