"""Routes of tokens: list, make, rotate, revoke. A token is shown once, in the answer that makes it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, status
from pydantic import TypeAdapter

from tidemark.controller.access import manage_tokens
from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.access.manage_tokens import MadeToken, fields
from tidemark.controller.access.token_store import get_token, list_tokens
from tidemark.controller.api.bodies import RotationBody, TokenBody, parse_body
from tidemark.controller.api.cursors import ThePaging, decode_number_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers, takes
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.schemas.service import TokenAnswer, TokenMade, TokenPage
from tidemark.controller.service import Service

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])

_TOKEN = TypeAdapter(TokenBody)
_ROTATION = TypeAdapter(RotationBody)

_ABSENT = {404: "token-not-found", 409: "token-conflict"}

_TokenId = Annotated[int, Path(ge=1, le=2**53, description="Number of the token.", examples=[7])]

_OfName = Annotated[str | None, Query(max_length=64, description="Only the tokens of this name.")]


@router.get("", operation_id="listTokens", summary="List tokens", responses=answers("TokenPage", 422, 503))
def list_all(service: TheService, paging: ThePaging, name: _OfName = None) -> TokenPage:
    """List the tokens, ended ones too, by number; never the tokens themselves."""
    after = decode_number_cursor(paging.cursor) or 0
    with service.database.read() as session:
        rows = list_tokens(session, after, paging.rows, name)
    page, next_cursor = paging.cut(rows, lambda row: (row.id,))
    now_us = service.clock()
    return TokenPage(tokens=[TokenAnswer(**fields(row, now_us)) for row in page], next_cursor=next_cursor)


@router.post(
    "",
    operation_id="postToken",
    summary="Make a token",
    status_code=status.HTTP_201_CREATED,
    responses=answers("TokenMade", 201, 400, 408, 409, 413, 415, 422, 503, kinds=_ABSENT),
    openapi_extra=takes("TokenBody"),
)
def create(body: JsonBody, service: TheService, principal: ThePrincipal) -> TokenMade:
    """Make a token and show it, only this once. The first must be an admin's; from then on every caller needs one."""
    new = parse_body(_TOKEN, body).to_new()
    return _shown(service, manage_tokens.make(service.database, new, principal.name, service.clock()))


@router.get(
    "/{token_id:int}",
    operation_id="getToken",
    summary="Read a token",
    responses=answers("TokenAnswer", 404, 422, 503, kinds=_ABSENT),
)
def read(token_id: _TokenId, service: TheService) -> TokenAnswer:
    """Return a token's metadata; never the token itself."""
    with service.database.read() as session:
        return TokenAnswer(**fields(get_token(session, token_id), service.clock()))


@router.post(
    "/{token_id:int}:rotate",
    operation_id="rotateToken",
    summary="Rotate a token",
    status_code=status.HTTP_201_CREATED,
    responses=answers("TokenMade", 201, 400, 404, 408, 409, 413, 415, 422, 503, kinds=_ABSENT),
    openapi_extra=takes("RotationBody"),
)
def rotate(token_id: _TokenId, body: JsonBody, service: TheService, principal: ThePrincipal) -> TokenMade:
    """Make a second token of the same name, role, jobs and lifetime; both are valid until the first is revoked."""
    parse_body(_ROTATION, body)
    return _shown(service, manage_tokens.rotate(service.database, token_id, principal.name, service.clock()))


@router.delete(
    "/{token_id:int}",
    operation_id="deleteToken",
    summary="Revoke a token",
    responses=answers("TokenAnswer", 404, 422, 503, kinds=_ABSENT),
)
def revoke(token_id: _TokenId, service: TheService, principal: ThePrincipal) -> TokenAnswer:
    """Revoke a token, here at once and on other replicas within seconds; doing it again changes nothing."""
    ended = manage_tokens.revoke(service.database, token_id, principal.name, service.clock())
    service.authenticator.forget()
    return TokenAnswer(**fields(ended, service.clock()))


def _shown(service: Service, made: MadeToken) -> TokenMade:
    service.authenticator.forget()
    return TokenMade(**fields(made.stored, service.clock()), token=made.token)
