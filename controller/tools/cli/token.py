"""``tidemark token``: creates, lists, rotates and revokes tokens of a controller, and creates them in its store.

A controller that others can reach does not start without a token, so it cannot create the first one. Whoever can write
to the store creates it there; that also helps when the last admin's token is lost.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemark.controller.base.principal import Role
from tidemark.controller.base.token_format import SECRET_BYTES, make_token
from tidemark.controller.tools.cli.options import duration_of
from tidemark.controller.tools.cli.run import CommandAnswer, connect
from tidemark.controller.tools.cli.shape import fail_usage
from tidemark.controller.tools.cli.show import moment, say, table
from tidemark.controller.tools.client.address import DEFAULT_URL, TOKEN_VARIABLE
from tidemark.models.base.text import plain

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.service import TokenAnswer, TokenMade
    from tidemark.controller.tools.client.client import Client


def create(
    name: str | None,
    *,
    role: Role,
    job: tuple[str, ...],
    expires: str | None,
    url: str,
    token_file: Path | None,
    database_url: str | None,
) -> CommandAnswer:
    """Create a token and print it."""
    body: dict[str, Any] = {"name": name or role, "role": role, "jobs": list(job) or ["*"]}
    if expires is not None:
        body["lifetime_ms"] = duration_of(expires, "--expires") // 1_000
    named = url != DEFAULT_URL or token_file is not None or os.environ.get(TOKEN_VARIABLE)
    store = database_url or (None if named else _named_store())
    if store is None:
        with connect(url, token_file) as tidemark:
            first = not list(tidemark.tokens())
            made = tidemark.create_token(body)
    else:
        # A controller's tokens need no store here.
        from tidemark.controller.base.errors import TidemarkError  # noqa: PLC0415
        from tidemark.controller.tools.cli.stored_tokens import create_in_store  # noqa: PLC0415

        try:
            made, first = create_in_store(store, body)
        except TidemarkError as error:
            fail_usage(error.detail)
    return _made(
        made, "from now on every request needs a token, those of running jobs too" if first else None
    )


def mint(role: Role) -> None:
    """Print a new token that no store knows yet."""
    click.echo(make_token(role, secrets.token_bytes(SECRET_BYTES)))


def list_tokens(tidemark: Client) -> CommandAnswer:
    """List the tokens, expired and revoked ones too."""
    listed = list(tidemark.tokens())
    columns = ("number", "name", "role", "jobs", "state", "used")
    rows = [(*_cells(token), moment(token.last_used_us)) for token in listed]
    return CommandAnswer({"tokens": listed}, lambda: table(columns, rows, "there are no tokens"))


def rotate(tidemark: Client, name: str) -> CommandAnswer:
    """Create a second token of the same name, role, jobs and lifetime."""
    *_, newest = _live(tidemark, name)
    return _made(tidemark.rotate_token(newest.id, {}))


def revoke(tidemark: Client, name: str, *, token_id: int | None) -> CommandAnswer:
    """Revoke a token."""
    live = _live(tidemark, name)
    chosen = live[0] if token_id is None else next((one for one in live if one.id == token_id), None)
    if chosen is None:
        raise ValueError(f"no valid token of {name!r} has the number {token_id}; see tidemark token list")
    revoked = tidemark.revoke_token(chosen.id)

    def show() -> None:
        say(f"revoked token {revoked.id} of {name}")
        for other in live:
            if other.id != revoked.id:
                say(f"token {other.id} of {name} is still valid")

    return CommandAnswer(revoked, show)


def _named_store() -> str | None:
    """Return the URL of the store that the surroundings name, as they do where the controller runs."""
    if not {"TIDEMARK_DATABASE_URL", "TIDEMARK_CONFIG"} & os.environ.keys():
        return None  # without loading what reads settings
    from tidemark.controller.base.settings import ConfigurationError, named_store  # noqa: PLC0415

    try:
        return named_store()
    except ConfigurationError as error:
        fail_usage(str(error))


def _live(tidemark: Client, name: str) -> list[TokenAnswer]:
    live = [token for token in tidemark.tokens(name) if token.live]
    if not live:
        raise ValueError(f"there is no valid token of {name!r}; see tidemark token list")
    return live


def _made(made: TokenMade, note: str | None = None) -> CommandAnswer:
    number, name, role, jobs, state = _cells(made)

    def show() -> None:
        click.echo(made.token)
        line = f"token {number}: {name}, {role} of {jobs}, {state}; it is shown only once"
        click.echo(plain(line), err=True)

    return CommandAnswer(made, show, note=note)


def _cells(token: TokenAnswer) -> tuple[str, ...]:
    return str(token.id), token.name, token.role, ", ".join(token.jobs), _state(token)


def _state(token: TokenAnswer) -> str:
    if token.revoked_us is not None:
        return f"revoked {moment(token.revoked_us)} by {token.revoked_by}"
    if token.expires_us is None:
        return "valid without end"
    return f"{'valid until' if token.live else 'expired'} {moment(token.expires_us)}"
