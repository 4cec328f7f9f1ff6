"""``tidemark login`` and ``logout``: a person signs in where the controller says, and later commands send the token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tidemark.controller.tools.cli.run import CommandAnswer, connect
from tidemark.controller.tools.cli.show import say
from tidemark.controller.tools.client.address import TOKEN_VARIABLE
from tidemark.models.base.text import plain

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.service import SignInIssuer
    from tidemark.controller.tools.client.client import Client
    from tidemark.controller.tools.client.sign_in import Code


def login(url: str, issuer: str | None) -> CommandAnswer:
    """Sign in, and ask the controller who that is."""
    from tidemark.controller.tools.client.sign_in import sign_in, token_for  # noqa: PLC0415 - only here

    # What was kept before may have ended.
    with connect(url, None, token="") as anybody:
        sign_in(anybody.url, _chosen(anybody, issuer), _show)
        with connect(url, None, token=token_for(anybody.url)) as tidemark:
            caller = tidemark.caller()
    note = f"{TOKEN_VARIABLE} is set, and goes before it" if os.environ.get(TOKEN_VARIABLE) else None
    role = caller.role or "none"
    return CommandAnswer(caller, lambda: say(f"signed in as {caller.name}, role {role}"), note=note)


def logout(url: str) -> CommandAnswer:
    """Forget the token, and have its issuer end it."""
    from tidemark.controller.tools.client.sign_in import sign_out  # noqa: PLC0415 - only here

    with connect(url, None, token="") as tidemark:
        fault = sign_out(tidemark.url)
    text = "nobody was signed in" if fault is None else "signed out"
    note = f"the issuer has not ended the sign-in, which ends there by itself: {fault}" if fault else None
    answer = {"signed_out": fault is not None, "ended_at_issuer": fault == ""}
    return CommandAnswer(answer, lambda: say(text), note=note)


def _chosen(tidemark: Client, name: str | None) -> SignInIssuer:
    issuers = {one.name: one for one in tidemark.sign_in().issuers}
    if not issuers:
        raise ValueError(
            f"the controller at {tidemark.url} names no issuer to sign in at; use a token of tidemark token create"
        )
    if name is None and len(issuers) == 1:
        return next(iter(issuers.values()))
    if name not in issuers:
        raise ValueError(f"--issuer: name one of {', '.join(issuers)}")
    return issuers[name]


def _show(code: Code) -> None:
    click.echo(plain(f"open {code.address} in a browser and confirm the code {code.code}"), err=True)
