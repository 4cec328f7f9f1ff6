"""A controller that trusts an issuer, on a clock that a test moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import httpx

from support.controller_app import Controller
from support.issuer import Issuer, write_issuers
from support.tokens import bearer

__all__ = ["Trusting"]

ROLES = "sre=operator, root=admin, shop=operator:shop-*, *=viewer:public-*"


class Steady:
    """A clock that a test moves, in seconds."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Trusting:
    """A controller that trusts an issuer."""

    def __init__(self, folder: Path, issuer: Issuer, **table: str) -> None:
        self.issuer, self.steady = issuer, Steady()
        self.file = write_issuers(
            folder,
            idp={"issuer": issuer.url, "audience": "tidemark", "group_roles": ROLES, **table},
        )
        self.controller = Controller(
            f"sqlite:///{folder / 't.db'}", steady=self.steady, issuers_file=self.file, metrics_open=True
        )

    def __enter__(self) -> Self:
        self.controller.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.controller.__exit__(*error)

    def ask(self, token: str, path: str = "/v1/caller", **more: Any) -> httpx.Response:
        answer: httpx.Response = self.controller.http.get(path, headers=bearer(token), **more)
        return answer

    def refusal(self, token: str) -> str:
        """Return why a token is refused."""
        answer = self.ask(token)
        assert answer.status_code == 401, answer.text
        assert answer.headers["www-authenticate"] == 'Bearer realm="tidemark", error="invalid_token"'
        assert token not in answer.text
        return str(answer.json()["detail"])

    def name(self, token: str) -> str:
        answer = self.ask(token)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["name"])
