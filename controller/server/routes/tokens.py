"""Routes of tokens, of the caller, and of probes and metrics. A token is shown once, in the answer that makes it."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Path, Query, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic import TypeAdapter
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.errors import (
    ErrorItem,
    NotAliveError,
    NotReadyError,
    StoreUnavailableError,
    TidemarkError,
)
from tidemark.controller.base.parse_body import parse_body
from tidemark.controller.base.principal import Need, Reach, Right
from tidemark.controller.server.access import token_store
from tidemark.controller.server.access.token_store import MadeToken, StoredToken, get_token, list_tokens
from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.bodies import RotationBody, TokenBody
from tidemark.controller.server.http.cursors import ThePaging, decode_number_cursor
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import TheService
from tidemark.controller.server.http.request_body import JsonBody
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.service import (
    Caller,
    Health,
    HealthCheck,
    SignIn,
    SignInIssuer,
    TokenAnswer,
    TokenMade,
    TokenPage,
)
from tidemark.models.base.names import MAX_LENGTH

router = APIRouter(tags=["tokens"])

_TOKEN = TypeAdapter(TokenBody)
_ROTATION = TypeAdapter(RotationBody)

_ABSENT = {404: "token-not-found", 409: "token-conflict"}

_TokenId = Annotated[int, Path(ge=1, le=2**53, description="Number of the token.", examples=[7])]

_OfName = Annotated[str | None, Query(max_length=64, description="Only the tokens of this name.")]


@router.get("/v1/tokens", **says("listTokens", "List tokens", "TokenPage"))
def list_all(service: TheService, paging: ThePaging, name: _OfName = None) -> TokenPage:
    """List the tokens, ended ones too, by number; never the tokens themselves."""
    after = decode_number_cursor(paging.cursor) or 0
    with service.database.read() as session:
        rows = list_tokens(session, after, paging.rows, name)
    page, next_cursor = paging.cut(rows, lambda row: (row.id,))
    now_us = service.clock()
    return TokenPage(tokens=[_answer(row, now_us) for row in page], next_cursor=next_cursor)


@router.post(
    "/v1/tokens",
    **says("postToken", "Make a token", "TokenMade", 201, 409, body="TokenBody", kinds=_ABSENT),
)
def create(body: JsonBody, service: TheService, principal: ThePrincipal) -> TokenMade:
    """Make a token and show it, only this once. The first must be an admin's; from then on every caller needs one."""
    new = parse_body(_TOKEN, body).to_new()
    return _shown(service, token_store.make(service.database, new, principal.name, service.clock()))


@router.get(
    "/v1/tokens/{token_id:int}", **says("getToken", "Read a token", "TokenAnswer", 404, kinds=_ABSENT)
)
def read(token_id: _TokenId, service: TheService) -> TokenAnswer:
    """Return a token's metadata; never the token itself."""
    with service.database.read() as session:
        return _answer(get_token(session, token_id), service.clock())


@router.post(
    "/v1/tokens/{token_id:int}:rotate",
    **says("rotateToken", "Rotate a token", "TokenMade", 201, 404, 409, body="RotationBody", kinds=_ABSENT),
)
def rotate(token_id: _TokenId, body: JsonBody, service: TheService, principal: ThePrincipal) -> TokenMade:
    """Make a second token of the same name, role, jobs and lifetime; both are valid until the first is revoked."""
    parse_body(_ROTATION, body)
    return _shown(service, token_store.rotate(service.database, token_id, principal.name, service.clock()))


@router.delete(
    "/v1/tokens/{token_id:int}", **says("deleteToken", "Revoke a token", "TokenAnswer", 404, kinds=_ABSENT)
)
def revoke(token_id: _TokenId, service: TheService, principal: ThePrincipal) -> TokenAnswer:
    """Revoke a token, here at once and on other replicas within seconds; doing it again changes nothing."""
    ended = token_store.revoke(service.database, token_id, principal.name, service.clock())
    service.authenticator.forget()
    return _answer(ended, service.clock())


def _shown(service: Service, made: MadeToken) -> TokenMade:
    service.authenticator.forget()
    return made_of(TokenMade, made.stored, live=True, token=made.token)


def _answer(token: StoredToken, now_us: int) -> TokenAnswer:
    return made_of(TokenAnswer, token, live=token.is_live(now_us))


_OverJob = Annotated[
    str | None, Query(max_length=MAX_LENGTH, description="Name of a job; leave it out for the whole fleet.")
]


@router.get("/v1/caller", **says("getCaller", "Who calls", "Caller"))
def get_caller(principal: ThePrincipal, job: _OverJob = None) -> Caller:
    """Return who sends the request, and which rights that gives: over a job, or without `job` over the whole fleet."""
    reach: Reach = "fleet" if job is None else "job"
    rights = [right for right in get_args(Right) if principal.may(Need(right, reach), job)]
    return Caller(name=principal.name, role=principal.role, rights=rights)


@router.get("/v1/sign-in", **says("getSignIn", "Where to sign in", "SignIn"))
async def get_sign_in(service: TheService) -> SignIn:
    """Return the issuers at which people sign in, so that they need to know the controller's address alone."""
    return SignIn(
        issuers=[
            SignInIssuer(
                name=name, issuer=one.issuer, client_id=one.client_id or "", scope=one.scope, **endpoints
            )
            for name, one, endpoints in await service.authenticator.issuers.at_which_people_sign_in()
        ]
    )


health_router = APIRouter(tags=["health"])

_STUCK_TICKS = 3
"""For how many intervals between two ticks the loop may make no progress before it counts as stuck."""

_STUCK_SECONDS = 60
"""Seconds that one step may take beyond that. A tick over many streams has many steps."""

_Verbose = Annotated[str | None, Query(description="List what was checked; any value will do.")]

_Detail = Annotated[
    Literal["all"] | None,
    Query(
        description="all: every partition and metric of every stream, not only what rules and dashboards need."
    ),
]


@health_router.get("/livez", **says("getLiveness", "Liveness", "Health"))
async def livez(service: TheService, verbose: _Verbose = None) -> Health:
    """Report whether the decision loop makes progress; if not, restart the process."""
    # Asynchronous: it needs no thread, of which slow requests may take all.
    return _health([_loop(service)], NotAliveError, verbose)


@health_router.get("/readyz", **says("getReadiness", "Readiness", "Health"))
def readyz(service: TheService, verbose: _Verbose = None) -> Health:
    """Report whether requests can be served: the store takes writes and has this release's schema, nothing stops."""
    stopping = HealthCheck(
        name="stopping", ok=False, detail="the controller is stopping; call another replica"
    )
    checks = [stopping] if service.watch.released else []
    return _health([*checks, _store(service)], NotReadyError, verbose)


@health_router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics",
    response_class=Response,
)
def metrics(service: TheService, detail: _Detail = None) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(service.scrape.text(detail=detail is not None), media_type=CONTENT_TYPE_LATEST)


# Some load balancers and monitors probe with HEAD. The document has GET alone: HEAD is the same without the body.
for _path, _endpoint, _operation in (
    ("/livez", livez, "getLiveness"),
    ("/readyz", readyz, "getReadiness"),
    ("/metrics", metrics, "getMetrics"),
):
    health_router.add_api_route(
        _path, _endpoint, methods=["HEAD"], operation_id=_operation, include_in_schema=False
    )


def _health(checks: list[HealthCheck], error: type[TidemarkError], verbose: str | None) -> Health:
    failed = [check for check in checks if not check.ok]
    if failed:
        raise error(failed[0].detail, errors=tuple(ErrorItem(check.name, check.detail) for check in failed))
    return Health(status="ok", checks=None if verbose is None else checks)


def _loop(service: Service) -> HealthCheck:
    ticker = service.ticker
    idle_seconds = ticker.watchdog.idle_seconds
    stuck = idle_seconds > _STUCK_TICKS * service.settings.tick_seconds + _STUCK_SECONDS
    if not ticker.alive:
        return HealthCheck(name="loop", ok=False, detail="the decision loop does not run")
    detail = f"{ticker.ticks} ticks, the last step ended {idle_seconds:.0f} s ago"
    return HealthCheck(name="loop", ok=not stuck, detail=detail)


def _store(service: Service) -> HealthCheck:
    database = service.database
    try:
        database.prove_writable()
    except StoreUnavailableError as error:
        return HealthCheck(name="store", ok=False, detail=error.detail)
    except DBAPIError as error:
        said = (str(error.orig).strip().splitlines() or [type(error.orig).__name__])[0]
        return HealthCheck(name="store", ok=False, detail=f"the database takes no writes: {said}")
    except SQLAlchemyError as error:
        detail = f"the database cannot be reached ({type(error).__name__})"
        return HealthCheck(name="store", ok=False, detail=detail)
    detail = f"the database takes writes, its schema is at migration {database.release_version}"
    return HealthCheck(name="store", ok=True, detail=detail)
