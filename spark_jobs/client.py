"""The controller as a job sees it: a bound to ask for, reports and acknowledgements to send."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx

from tidemark.models.wire import Acknowledgement, BoundAnswer, Report, read_bound_answer, to_json_object

__all__ = ["ControllerBroken", "ControllerClient", "ControllerUnavailable", "RequestRefused"]

_BROKEN = 500
_LATER = (401, 403, 404, 408, 425, 429)
"""What may pass: a token that is being rotated, a proxy that has no controller behind it yet, too many requests."""

_GZIP_FROM_BYTES = 2_000
"""Smaller bodies are sent as they are: compressing them would save less than a packet."""


class ControllerUnavailable(Exception):
    """The controller did not answer, or said that it cannot now: the same request may succeed later."""


class ControllerBroken(ControllerUnavailable):
    """The controller failed on this very request (status 500): worth a few more tries, but not for ever."""


class RequestRefused(Exception):
    """The controller refused the request for good: sending it again would not help."""


class ControllerClient:
    """Requests to one controller.

    Args:
        url: address of the controller, such as ``http://tidemark:8642``.
        token_file: file that holds a bearer token, read before each request so that rotation needs no restart.
        timeout_s: limit for each request, in seconds.
        transport: replaces the network, for tests.
    """

    def __init__(
        self,
        url: str,
        token_file: Path | None = None,
        timeout_s: float = 3.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token_file = token_file
        self._http = httpx.Client(timeout=timeout_s, transport=transport)

    def bound(self, job: str, stream: str) -> BoundAnswer:
        """Return the bound for a stream.

        Raises:
            ControllerUnavailable: when there is no answer now.
            RequestRefused: when the controller refuses, or answers what this release cannot read.
        """
        response = self._send("GET", job, stream, "bound")
        try:
            answer = read_bound_answer(response.json())
        except ValueError as error:
            raise RequestRefused(f"{self.url} answered what this release cannot read: {error}") from None
        if (answer.job, answer.stream) != (job, stream):
            raise RequestRefused(f"{self.url} answered for {answer.job!r}/{answer.stream!r}")
        return answer

    def report(self, report: Report) -> None:
        """Send a report. Raises as ``bound`` does."""
        self._send("POST", report.job, report.stream, "reports", report)

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Send an acknowledgement. Raises as ``bound`` does."""
        self._send("POST", job, stream, "acks", acknowledgement)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(
        self,
        method: Literal["GET", "POST"],
        job: str,
        stream: str,
        what: str,
        body: Report | Acknowledgement | None = None,
    ) -> httpx.Response:
        url = f"{self.url}/v1/jobs/{quote(job, safe='')}/streams/{quote(stream, safe='')}/{what}"
        headers = {"Accept": "application/json"}
        content: bytes | None = None
        if self._token_file is not None:
            try:
                headers["Authorization"] = f"Bearer {self._token_file.read_text().strip()}"
            except OSError as error:
                raise ControllerUnavailable(f"token file {self._token_file}: {error.strerror}") from None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(to_json_object(body), separators=(",", ":")).encode()
            if len(content) >= _GZIP_FROM_BYTES:
                headers["Content-Encoding"] = "gzip"
                content = gzip.compress(content, 5)
        try:
            response = self._http.request(method, url, headers=headers, content=content)
        except httpx.HTTPError as error:
            raise ControllerUnavailable(f"{self.url}: {type(error).__name__}: {error}") from None
        if response.status_code in _LATER or response.status_code > _BROKEN:
            raise ControllerUnavailable(f"{self.url}: {response.status_code} {_detail(response)}")
        if response.status_code == _BROKEN:
            raise ControllerBroken(f"{self.url}: {_BROKEN} {_detail(response)}")
        if not response.is_success:
            raise RequestRefused(f"{self.url}: {response.status_code} {_detail(response)}")
        return response


def _detail(response: httpx.Response) -> str:
    try:
        problem: Any = response.json()
        errors = "; ".join(f"{error['pointer']}: {error['detail']}" for error in problem.get("errors", []))
        return f"{problem.get('title', '')}: {problem.get('detail', '')} {errors}".strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        return response.reason_phrase
