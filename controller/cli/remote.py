"""A running controller, as commands ask it: its address, the token, and what goes wrong in one line each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

import typer

if TYPE_CHECKING:
    import httpx

__all__ = [
    "TOKEN_VARIABLE",
    "CannotAskError",
    "RefusedError",
    "Remote",
    "TokenFileOption",
    "TokenRefusedError",
    "UrlOption",
    "stream_path",
]

DEFAULT_URL = "http://127.0.0.1:8642"
"""Where ``tidemark serve`` listens unless told otherwise."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the bearer token where no file is named."""

TIMEOUT_SECONDS = 60.0
"""How long an answer may take: a pin on a large fleet tells every stream before it is answered."""

_UNAUTHORISED = (401, 403)

UrlOption = Annotated[
    str,
    typer.Option("--url", envvar="TIDEMARK_URL", help="Address of the controller.", show_default=DEFAULT_URL),
]
"""The option ``--url``."""

TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file", help=f"File that holds the bearer token; else {TOKEN_VARIABLE}, if it is set."
    ),
]
"""The option ``--token-file``."""


class CannotAskError(Exception):
    """The controller cannot be asked; the message says why and what to look at."""


class TokenRefusedError(CannotAskError):
    """The controller does not take the token, or wants one."""


class RefusedError(Exception):
    """The controller refused the request.

    Args:
        status: HTTP status.
        kind: problem type.
        detail: what was wrong, as a sentence.
    """

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind


def stream_path(job: str, stream: str | None = None) -> str:
    """Return the path of a job, or of one of its streams."""
    path = f"/v1/jobs/{quote(job, safe='')}"
    return path if stream is None else f"{path}/streams/{quote(stream, safe='')}"


class Remote:
    """A controller.

    Args:
        url: its address.
        token_file: file that holds the bearer token; None: the environment, if it is set there.
    """

    def __init__(self, url: str, token_file: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self.token_file = token_file

    @property
    def has_token(self) -> bool:
        """Whether a token is sent."""
        return self.token_file is not None or bool(os.environ.get(TOKEN_VARIABLE))

    def ask(
        self,
        method: Literal["GET", "PUT", "DELETE"],
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            CannotAskError: when there is no answer, or none of a controller's.
            RefusedError: when the controller refuses it.
        """
        import httpx  # noqa: PLC0415 - the other commands start fast without it

        try:
            answer = httpx.request(
                method,
                self.url + path,
                json=body,
                params=params,
                headers=self._authorization(),
                timeout=TIMEOUT_SECONDS,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CannotAskError(
                f"the controller at {self.url} cannot be reached: {str(error) or type(error).__name__}"
            ) from None
        return self._read(answer)

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            told = answer.json()
        except ValueError:
            told = None
        if not isinstance(told, dict):
            told = {}
        if answer.status_code in _UNAUTHORISED:
            sent = "the token was refused" if self.has_token else "no token was sent, and one is wanted"
            detail = told.get("detail")
            raise TokenRefusedError(
                f"the controller at {self.url} answers {answer.status_code}: {detail or sent}"
            )
        if answer.is_success and told:
            return told
        if "detail" not in told:
            raise CannotAskError(
                f"what is at {self.url} answers {answer.status_code}, but not as a controller does"
            )
        raise RefusedError(answer.status_code, str(told.get("type", "")), str(told["detail"]))

    def _authorization(self) -> dict[str, str]:
        text = os.environ.get(TOKEN_VARIABLE, "")
        if self.token_file is not None:
            try:
                text = self.token_file.read_text(encoding="ascii")
            except OSError as error:
                raise CannotAskError(f"token file {self.token_file}: {error.strerror}") from None
            except ValueError:
                # The error would quote what the file holds.
                raise CannotAskError(
                    f"token file {self.token_file} holds no token: it is not plain ASCII"
                ) from None
        token = text.strip()
        if not token:
            return {}
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise CannotAskError("the token holds spaces or odd characters")
        return {"Authorization": f"Bearer {token}"}
