"""Every request is let in, or not, here: who sends it, how often, and whether the table of permissions allows it."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from structlog.contextvars import bind_contextvars

from tidemark.controller.access.acting import act_for
from tidemark.controller.access.authenticator import Knock
from tidemark.controller.access.principal import Principal
from tidemark.controller.access.rate_limits import RateLimit
from tidemark.controller.access.roles import Need, need_of
from tidemark.controller.errors import ForbiddenError, TooManyRequestsError, UnauthenticatedError
from tidemark.controller.service import Service

__all__ = ["ThePrincipal", "authorize"]


async def authorize(request: Request) -> Principal | None:
    """Return who sends the request; None where everybody is let in. The first dependency of every route.

    Raises:
        UnauthenticatedError: when that is not known.
        ForbiddenError: when it may not; nothing was looked up for it.
        TooManyRequestsError: when it comes too often.
    """
    service: Service = request.app.state.service
    bind_contextvars(
        **{name: request.path_params[name] for name in ("job", "stream") if name in request.path_params}
    )
    operation = getattr(request.scope["route"], "operation_id", None)
    need = need_of(operation)
    if need is None or (operation == "getMetrics" and service.settings.metrics_open):
        return None
    if not service.door.fresh:
        await run_in_threadpool(service.door.refresh)
    peer = request.client.host if request.client else None
    try:
        principal = service.door.admit(_knock(service, request, peer))
    except UnauthenticatedError:
        _count(service.rates.of(None), ("peer", peer))
        raise
    bind_contextvars(principal=principal.name)
    _count(service.rates.of(need.right), _caller(principal, peer))
    if not principal.may(need, request.path_params.get("job")):
        raise _forbidden(principal, need)
    act_for(principal.name)
    return principal


async def _principal(principal: Annotated[Principal | None, Depends(authorize)]) -> Principal:
    assert principal is not None, "an operation that is open to everybody does not ask who it is"
    return principal


ThePrincipal = Annotated[Principal, Depends(_principal)]
"""Who sends the request."""


def _knock(service: Service, request: Request, peer: str | None) -> Knock:
    proxy, headers = service.door.proxy, request.headers
    return Knock(
        peer=peer,
        host=headers.get("host"),
        authorization=headers.getlist("authorization"),
        users=headers.getlist(proxy.user_header) if proxy else (),
        groups=headers.getlist(proxy.groups_header) if proxy and proxy.groups_header else (),
    )


def _caller(principal: Principal, peer: str | None) -> tuple[str, object]:
    if principal.token_id is not None:
        return "token", principal.token_id
    return ("peer", peer) if principal.is_loopback else ("user", principal.name)


def _count(limit: RateLimit, caller: tuple[str, object]) -> None:
    wait = limit.wait_seconds(caller)
    if wait:
        raise TooManyRequestsError(
            f"more than {limit.per_second:g} requests a second; wait before the next",
            headers={"Retry-After": str(math.ceil(wait))},
        )


def _forbidden(principal: Principal, need: Need) -> ForbiddenError:
    if not principal.has(need.right):
        role = principal.role or "none"
        reason = f"this is for {' and '.join(need.roles)}, and {principal.name!r} has the role {role}"
    elif need.reach == "fleet":
        reason = f"this is about every job, and {principal.name!r} is limited to some"
    else:
        reason = f"this job is out of reach of {principal.name!r}"
    return ForbiddenError(
        reason, headers={"WWW-Authenticate": 'Bearer realm="tidemark", error="insufficient_scope"'}
    )
