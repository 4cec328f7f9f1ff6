"""``tidemark token``: make, list, rotate and revoke tokens, by a running controller or directly in its store.

The first token cannot be made by a controller that others reach, because it does not start without one. Whoever has the
store may make it there; that is also the way back in when the last admin's token is lost.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from tidemark.controller.access.roles import Role
from tidemark.controller.access.token_format import SECRET_BYTES, make_token
from tidemark.controller.cli.fail import fail
from tidemark.controller.cli.options import duration_of
from tidemark.controller.cli.remote import (
    DEFAULT_URL,
    JsonOption,
    TokenFileOption,
    UrlOption,
    asking,
    one_line_answers,
)

if TYPE_CHECKING:
    from tidemark.controller.client.client import Client

__all__ = ["register"]

PAGE = 1_000
"""Tokens asked for at a time."""

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url", help="Work in the store itself, without a controller: for the first token of all."
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of whoever holds the token.")]
IdOption = Annotated[int | None, typer.Option("--id", help="Number of the token, of those of the name.")]


class Desk(Protocol):
    """Where tokens are handled; every answer has the fields of the API's."""

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a token."""

    def every(self, name: str | None) -> list[dict[str, Any]]:
        """Return all tokens, or those of one name, by number."""

    def rotate(self, token_id: int) -> dict[str, Any]:
        """Make the successor of a token."""

    def revoke(self, token_id: int) -> dict[str, Any]:
        """End a token."""


@dataclass(frozen=True, slots=True)
class RemoteDesk:
    """A running controller."""

    remote: Client

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a token."""
        return self.remote.ask("POST", "/v1/tokens", body=body)

    def every(self, name: str | None) -> list[dict[str, Any]]:
        """Return all tokens, or those of one name, by number."""
        params: dict[str, str | int] = {"limit": PAGE} | ({} if name is None else {"name": name})
        found: list[dict[str, Any]] = []
        while True:
            page = self.remote.ask("GET", "/v1/tokens", params=params)
            found += page["tokens"]
            if page["next_cursor"] is None:
                return found
            params["cursor"] = page["next_cursor"]

    def rotate(self, token_id: int) -> dict[str, Any]:
        """Make the successor of a token."""
        return self.remote.ask("POST", f"/v1/tokens/{token_id}:rotate")

    def revoke(self, token_id: int) -> dict[str, Any]:
        """End a token."""
        return self.remote.ask("DELETE", f"/v1/tokens/{token_id}")


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    tokens = typer.Typer(help="Make, list, rotate and revoke bearer tokens.", no_args_is_help=True)
    for name, command in (
        ("create", create),
        ("mint", mint),
        ("list", list_tokens),
        ("rotate", rotate),
        ("revoke", revoke),
    ):
        tokens.command(name)(command)
    app.add_typer(tokens, name="token")


def create(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Who will hold it; the role's name without one."),
    ] = None,
    *,
    role: Annotated[Role, typer.Option(help="What it may do.")],
    job: Annotated[
        list[str] | None,
        typer.Option(help="Pattern of the jobs it reaches, such as 'shop-*'; may be repeated; else all."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="How long it is good for, such as '90 days'; else for ever.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """Make a token and print it, alone on standard output: it is shown this once."""
    body: dict[str, Any] = {"name": name or role, "role": role, "jobs": job or ["*"]}
    with _desk(url, token_file, database_url) as desk:
        if expires is not None:
            body["lifetime_ms"] = duration_of(expires) // 1_000
        _show_made(desk.create(body), as_json=as_json)


def mint(
    *,
    role: Annotated[Role, typer.Option(help="What it is to be allowed.")],
) -> None:
    """Print a new token that no store knows yet: for a file that a new store begins with (TIDEMARK_FIRST_TOKENS)."""
    typer.echo(make_token(role, secrets.token_bytes(SECRET_BYTES)))


def list_tokens(
    *,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """List the tokens, ended ones too."""
    with _desk(url, token_file, database_url) as desk:
        found = desk.every(None)
    if as_json:
        typer.echo(json.dumps({"tokens": found}, indent=2))
        return
    for result in found:
        typer.echo(_line(result))
    if not found:
        typer.echo("there are no tokens")


def rotate(
    name: NameArgument,
    *,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """Make a second token of the same name, role, jobs and lifetime; the first stays good until it is revoked."""
    with _desk(url, token_file, database_url) as desk:
        *_, newest = _live(desk, name)
        _show_made(desk.rotate(newest["id"]), as_json=as_json)


def revoke(
    name: NameArgument,
    *,
    token_id: IdOption = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """End a token: of two that live, the one that was made first, unless --id names the other."""
    with _desk(url, token_file, database_url) as desk:
        live = _live(desk, name)
        ended = (
            live[0] if token_id is None else next((found for found in live if found["id"] == token_id), None)
        )
        if ended is None:
            raise ValueError(f"no live token of {name!r} has the number {token_id}; see tidemark token list")
        found = desk.revoke(ended["id"])
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"revoked token {found['id']} of {name}")
    for other in live:
        if other["id"] != found["id"]:
            typer.echo(f"token {other['id']} of {name} is still good")


@contextmanager
def _desk(url: str, token_file: Path | None, database_url: str | None) -> Iterator[Desk]:
    """Open the desk that is asked for; what goes wrong ends the command with one line."""
    if database_url is None:
        with asking(url, token_file) as remote:
            yield RemoteDesk(remote)
        return
    # The other commands start fast without the store.
    from tidemark.controller.cli.store_desk import open_store  # noqa: PLC0415
    from tidemark.controller.errors import TidemarkError  # noqa: PLC0415

    try:
        with one_line_answers(), open_store(database_url) as desk:
            yield desk
    except TidemarkError as error:
        fail(error.detail)


def _live(desk: Desk, name: str) -> list[dict[str, Any]]:
    live = [found for found in desk.every(name) if found["live"]]
    if not live:
        raise ValueError(f"there is no live token of {name!r}; see tidemark token list")
    return live


def _show_made(made: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(made, indent=2))
        return
    typer.echo(made["token"])
    typer.echo(f"token {_line(made)}; it is shown this once", err=True)


def _line(answer: dict[str, Any]) -> str:
    if answer["revoked_us"] is not None:
        state = f"revoked {_time(answer['revoked_us'])} by {answer['revoked_by']}"
    elif not answer["live"]:
        state = f"expired {_time(answer['expires_us'])}"
    else:
        state = (
            "good for ever" if answer["expires_us"] is None else f"good until {_time(answer['expires_us'])}"
        )
    used = "" if answer["last_used_us"] is None else f", used {_time(answer['last_used_us'])}"
    return f"{answer['id']}: {answer['name']}, {answer['role']} of {', '.join(answer['jobs'])}, {state}{used}"


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(" ", "seconds")
