"""``tidemark token``: creates, lists, rotates and revokes tokens, through a controller or directly in its store.

A controller that others can reach does not start without a token, so it cannot create the first one. Whoever can write
to the store creates it there; that also helps when the last admin's token is lost.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.controller.base.principal import Role
from tidemark.controller.base.token_format import SECRET_BYTES, make_token
from tidemark.controller.tools.cli.options import duration_of
from tidemark.controller.tools.cli.output import Format, names, prints_data, write
from tidemark.controller.tools.cli.remote import (
    TokenFileOption,
    UrlOption,
    client_errors_in_one_line,
    open_client,
)
from tidemark.controller.tools.cli.show import fail_usage, moment, say, table
from tidemark.controller.tools.client.address import DEFAULT_URL, TOKEN_VARIABLE
from tidemark.models.base.text import plain

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.service import TokenAnswer, TokenMade
    from tidemark.controller.tools.cli.stored_tokens import StoredTokens
    from tidemark.controller.tools.client.client import Client

_DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="Work in the store itself, without a controller: for the first token. Default: the store that "
        "TIDEMARK_DATABASE_URL or TIDEMARK_CONFIG names, if neither an address nor a token is given.",
    ),
]
_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the holder of the token.")]
_IdOption = Annotated[
    int | None, typer.Option("--id", help="Number of the token, when the name has several.")
]


@dataclass(frozen=True, slots=True)
class RemoteTokens:
    """The tokens of a running controller."""

    client: Client

    def create(self, body: dict[str, Any]) -> TokenMade:
        """Create a token."""
        return self.client.create_token(body)

    def tokens(self, name: str | None) -> list[TokenAnswer]:
        """Return all tokens, or those of one name, by number."""
        return list(self.client.tokens(name))

    def rotate(self, token_id: int) -> TokenMade:
        """Create the successor of a token."""
        return self.client.rotate_token(token_id, {})

    def revoke(self, token_id: int) -> TokenAnswer:
        """Revoke a token."""
        return self.client.revoke_token(token_id)


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    tokens = typer.Typer(
        help="Create, list, rotate and revoke tokens.", no_args_is_help=True, rich_markup_mode=None
    )
    for name, command in (
        ("create", _create),
        ("mint", _mint),
        ("list", _list_tokens),
        ("rotate", _rotate),
        ("revoke", _revoke),
    ):
        tokens.command(name)(command)
    app.add_typer(tokens, name="token")


@prints_data
def _create(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the holder. Default: the name of the role.")
    ] = None,
    *,
    role: Annotated[Role, typer.Option(help="What the holder may do.")],
    job: Annotated[
        list[str] | None,
        typer.Option(
            help="Pattern of the jobs that it is valid for, such as 'shop-*'; may be repeated. Default: all."
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="How long it is valid, such as '90 days'. Default: without end.")
    ] = None,
    output: Format | None = None,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: _DatabaseOption = None,
) -> None:
    """Create a token and print it.

    Standard output holds the token alone. It is shown only once.
    """
    body: dict[str, Any] = {"name": name or role, "role": role, "jobs": job or ["*"]}
    with _open_tokens(url, token_file, database_url) as tokens:
        if expires is not None:
            body["lifetime_ms"] = duration_of(expires, "--expires") // 1_000
        is_first = not tokens.tokens(None)
        _show_made(tokens.create(body), output)
    if is_first:
        typer.echo("from now on every request needs a token, those of running jobs too", err=True)


def _mint(*, role: Annotated[Role, typer.Option(help="What the holder may do.")]) -> None:
    """Print a new token that no store knows yet.

    It is for a file of the folder TIDEMARK_FIRST_TOKENS, whose tokens a new store begins with.
    """
    typer.echo(make_token(role, secrets.token_bytes(SECRET_BYTES)))


@prints_data(lists=True)
def _list_tokens(
    *,
    output: Format | None = None,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: _DatabaseOption = None,
) -> None:
    """List the tokens, expired and revoked ones too."""
    with _open_tokens(url, token_file, database_url) as tokens:
        found = tokens.tokens(None)
    if output in {"json", "yaml"}:
        return write(found, "tokens", output=output)
    if output == "name":
        return names(dict.fromkeys(each.name for each in found))
    wide = output == "wide"
    columns = ("number", "name", "role", "jobs", "state", "used")
    more = ("created", "by") if wide else ()
    rows = [(*_cells(each), *(_more(each) if wide else ())) for each in found]
    return table((*columns, *more), rows, "there are no tokens")


@prints_data
def _rotate(
    name: _NameArgument,
    *,
    output: Format | None = None,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: _DatabaseOption = None,
) -> None:
    """Create a second token of the same name, role, jobs and lifetime.

    The first stays valid until it is revoked.
    """
    with _open_tokens(url, token_file, database_url) as tokens:
        *_, newest = _live(tokens, name)
        _show_made(tokens.rotate(newest.id), output)


@prints_data
def _revoke(
    name: _NameArgument,
    *,
    token_id: _IdOption = None,
    output: Format | None = None,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: _DatabaseOption = None,
) -> None:
    """Revoke a token.

    When two of the name are valid, it is the one that was created first, unless --id names the other.
    """
    with _open_tokens(url, token_file, database_url) as tokens:
        live = _live(tokens, name)
        revoked = (
            live[0] if token_id is None else next((found for found in live if found.id == token_id), None)
        )
        if revoked is None:
            raise ValueError(f"no valid token of {name!r} has the number {token_id}; see tidemark token list")
        found = tokens.revoke(revoked.id)
    if output is not None:
        return write(found, output=output)
    say(f"revoked token {found.id} of {name}")
    for other in live:
        if other.id != found.id:
            say(f"token {other.id} of {name} is still valid")
    return None


@contextmanager
def _open_tokens(
    url: str, token_file: Path | None, database_url: str | None
) -> Iterator[RemoteTokens | StoredTokens]:
    """Open the tokens of the controller or of the store; a failure ends the command with one line."""
    named = url != DEFAULT_URL or token_file is not None or os.environ.get(TOKEN_VARIABLE)
    if database_url is None and not named:
        database_url = _named_store()
    if database_url is None:
        with open_client(url, token_file) as remote:
            yield RemoteTokens(remote)
        return
    # A controller's tokens need no store here.
    from tidemark.controller.base.errors import TidemarkError  # noqa: PLC0415
    from tidemark.controller.tools.cli.stored_tokens import open_store  # noqa: PLC0415

    try:
        with client_errors_in_one_line(), open_store(database_url) as tokens:
            yield tokens
    except TidemarkError as error:
        fail_usage(error.detail)


def _named_store() -> str | None:
    """Return the URL of the store that the surroundings name, as they do where the controller runs."""
    if not {"TIDEMARK_DATABASE_URL", "TIDEMARK_CONFIG"} & os.environ.keys():
        return None  # without loading what reads settings
    from tidemark.controller.base.settings import ConfigurationError, named_store  # noqa: PLC0415

    try:
        return named_store()
    except ConfigurationError as error:
        fail_usage(str(error))


def _live(tokens: RemoteTokens | StoredTokens, name: str) -> list[TokenAnswer]:
    live = [found for found in tokens.tokens(name) if found.live]
    if not live:
        raise ValueError(f"there is no valid token of {name!r}; see tidemark token list")
    return live


def _show_made(made: TokenMade, output: Format | None) -> None:
    if output is not None:
        return write(made, output=output)
    typer.echo(made.token)
    number, name, role, jobs, state, _ = _cells(made)
    line = f"token {number}: {name}, {role} of {jobs}, {state}; it is shown only once"
    return typer.echo(plain(line), err=True)


def _cells(answer: TokenAnswer) -> tuple[str, ...]:
    jobs = ", ".join(answer.jobs)
    used = moment(answer.last_used_us)
    return str(answer.id), answer.name, answer.role, jobs, _state(answer), used


def _state(answer: TokenAnswer) -> str:
    if answer.revoked_us is not None:
        return f"revoked {moment(answer.revoked_us)} by {answer.revoked_by}"
    expires_us = answer.expires_us
    if expires_us is None:
        return "valid without end"
    return f"{'valid until' if answer.live else 'expired'} {moment(expires_us)}"


def _more(answer: TokenAnswer) -> tuple[str, str]:
    return moment(answer.created_us), answer.created_by or "-"
