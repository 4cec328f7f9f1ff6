"""Decides on every request: who sends it, how often, and whether the table of permissions allows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from structlog.contextvars import bind_contextvars

from tidemark.controller.base.errors import (
    ForbiddenError,
    IssuerUnavailableError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from tidemark.controller.base.principal import Need, Principal, set_actor
from tidemark.controller.server.access.authenticator import RateLimit
from tidemark.controller.server.process.service import Service
from tidemark.models.base.text import format_number

_READ, _LIST, _READ_FLEET = Need("Read"), Need("Read", "list"), Need("Read", "fleet")
_OPERATE = Need("Operate")
TOKENS = Need("Administer", "fleet")
"""What it takes to read and change tokens."""


OPERATIONS: Mapping[str, Need | None] = MappingProxyType(
    {
        "getLiveness": None,
        "getReadiness": None,
        # Who has no token yet asks where to get one.
        "getSignIn": None,
        # Metrics cover every job.
        "getMetrics": _READ_FLEET,
        # Every role may know what it may do.
        "getCaller": Need("Ask", without_job="list"),
        "listJobs": _LIST,
        "getJob": _READ,
        "listFleet": _LIST,
        "listSavings": _LIST,
        "getStream": _READ,
        # It cannot be undone.
        "deleteStream": Need("Administer"),
        "adoptStream": _OPERATE,
        "getSlo": _READ,
        "putSlo": _OPERATE,
        "deleteSlo": _OPERATE,
        "getPolicy": _READ,
        "putPolicy": _OPERATE,
        "deletePolicy": _OPERATE,
        "listGates": _LIST,
        "listJoins": _READ,
        "getJoin": _READ,
        "putJoin": _OPERATE,
        "deleteJoin": _OPERATE,
        "postReport": Need("Report"),
        "postAcknowledgement": Need("Report"),
        "postLateRows": Need("Report"),
        "listMissingBatches": Need("Ask"),
        # Pages of megabytes: these requests count like those of people.
        "listReportBodies": Need("Recall"),
        "listReports": _READ,
        "listAcknowledgements": _READ,
        "listBounds": _READ,
        "getBound": Need("Ask"),
        "listRollouts": _LIST,
        "listStreamRollouts": _READ,
        "getRollout": _READ,
        "approveRollout": _OPERATE,
        "discardRollout": _OPERATE,
        "rollBackRollout": _OPERATE,
        "liftVeto": _OPERATE,
        "pauseStream": _OPERATE,
        "resumeStream": _OPERATE,
        "listEvents": _LIST,
        "listStreamEvents": _READ,
        "getCurve": _READ,
        "getPreview": _READ,
        "getLost": _READ,
        "getHistory": _READ,
        "getHeatmap": _READ,
        "getPartitionCurve": _READ,
        "getBudget": _READ,
        "listPartitions": _READ,
        "listWindows": _READ,
        "getWindow": _READ,
        "listPredictions": _READ,
        "listPins": _LIST,
        "getPin": Need("Read", without_job="list"),
        "putPin": Need("Operate", without_job="fleet"),
        "deletePin": Need("Operate", without_job="fleet"),
        "listTokens": TOKENS,
        "postToken": TOKENS,
        "getToken": TOKENS,
        "rotateToken": TOKENS,
        "deleteToken": TOKENS,
    }
)
"""By operation id, what it requires; None: open to everybody."""

_UNDECLARED = Need("Administer", "fleet")


def need_of(operation: str | None) -> Need | None:
    """Return what an operation requires; one that is not in the table is for unscoped admins only."""
    return _UNDECLARED if operation is None else OPERATIONS.get(operation, _UNDECLARED)


Caller = tuple[str, object]
"""Whom limits apply to: a token, a user of the proxy or of an issuer, or an address without credentials."""


async def authorize(request: Request) -> Principal | None:
    """Return who sends the request; None where everybody may call. The first dependency of every route.

    Raises:
        UnauthenticatedError: when that is not known.
        IssuerUnavailableError: when it cannot be known now.
        ForbiddenError: when it is not allowed; nothing was looked up for it.
        TooManyRequestsError: when it comes too often.
    """
    service: Service = request.app.state.service
    operation = getattr(request.scope["route"], "operation_id", None)
    need = need_of(operation)
    in_query = need is not None and need.without_job is not None
    named = request.query_params if in_query else request.path_params
    bind_contextvars(**{name: named[name] for name in ("job", "stream") if name in named})
    # Each has to be in reach, also where the handler takes only one.
    jobs: list[str | None] = [*request.query_params.getlist("job")] if in_query else [named.get("job")]
    if need is None or (operation == "getMetrics" and service.settings.metrics_open):
        return None
    if not service.authenticator.fresh:
        await run_in_threadpool(service.authenticator.refresh)
    peer = request.client.host if request.client else None
    try:
        principal = await service.authenticator.authenticate(peer, request.headers)
    except (UnauthenticatedError, IssuerUnavailableError):
        _count(service.rates.of(None), ("peer", peer))
        raise
    bind_contextvars(principal=principal.name)
    request.state.caller = _caller(principal, peer)
    _count(service.rates.of(need.right), request.state.caller)
    for job in jobs or [None]:
        if not principal.may(need, job):
            raise _forbidden(principal, need, job)
    set_actor(principal)
    return principal


async def _principal(principal: Annotated[Principal | None, Depends(authorize)]) -> Principal:
    assert principal is not None, "an operation that is open to everybody has no principal"
    return principal


ThePrincipal = Annotated[Principal, Depends(_principal)]
"""Who sends the request."""


async def _caller_of(request: Request, principal: ThePrincipal) -> Caller:
    return _caller(principal, request.client.host if request.client else None)


TheCaller = Annotated[Caller, Depends(_caller_of)]
"""Whose limits the request counts against."""


def _caller(principal: Principal, peer: str | None) -> Caller:
    if principal.token_id is not None:
        return "token", principal.token_id
    return ("peer", peer) if principal.is_loopback else ("user", principal.name)


def _count(limit: RateLimit, caller: Caller) -> None:
    wait = limit.wait_seconds(caller)
    if wait:
        raise TooManyRequestsError(
            f"more than {format_number(limit.per_second)} requests a second; wait before the next",
            headers={"Retry-After": str(math.ceil(wait))},
        )


def _forbidden(principal: Principal, need: Need, job: str | None) -> ForbiddenError:
    if not principal.has(need.right):
        role = principal.role or "none"
        reason = f"this needs the role {' or '.join(need.roles)}, and {principal.name!r} has the role {role}"
    elif need.over(job) == "fleet":
        reason = f"this is about every job, and {principal.name!r} is limited to some"
    else:
        reason = f"this job is out of reach of {principal.name!r}"
    return ForbiddenError(
        reason, headers={"WWW-Authenticate": 'Bearer realm="tidemark", error="insufficient_scope"'}
    )
