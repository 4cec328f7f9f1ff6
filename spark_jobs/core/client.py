"""The client of the controller: requests a bound, sends reports and acknowledgements.

What is sent counts as delivered, or as rejected for good, only by an answer that names it: the controller repeats the
SHA-256 of the body. Whatever else answers, such as a proxy, a page to log in or another service, is a failure, and the
same may be sent again.

The bearer token of a job comes from a file or the environment, never from Spark's conf, which Spark shows to everybody.
Both are read before each request, so that a token can be rotated while the job runs.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote

import httpx

from tidemark.models.base.read_json import read_object
from tidemark.models.base.text import plain
from tidemark.models.protocol.late_policy import LatePolicy
from tidemark.models.protocol.messages import (
    Acknowledgement,
    BoundAnswer,
    Report,
    read_bound_answer,
    read_report,
    to_json_object,
)
from tidemark.spark_jobs.core.http import MAX_BYTES, UnusableAnswer, answer_to, close, open_http

if TYPE_CHECKING:
    from tidemark.models.completeness.outcome import Window

TOKEN_FILE_KEY = "spark.tidemark.token.file"  # noqa: S105 - the name of a key
"""Conf key that names the file."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the token where no file is named."""


_log = logging.getLogger("tidemark.spark")
_NOT_MODIFIED = 304
_BROKEN = 500
_UNAUTHORISED = (401, 403)
_TOO_MANY = 429
_LATER = (404, 408, 425, _TOO_MANY)
"""Temporary: a proxy that has no controller behind it yet, too many requests."""

_BYTES_A_SECOND = 250_000
"""How fast a body goes out at least; it has so much more time than the limit of a request."""

_MAX_PAGE_BYTES = 32_000_000
_PAGE_S = 30.0
"""How large a page of reports is at most, and how long a page may take beyond the limit of a request, in seconds."""

_MAX_DETAIL = 500
"""Characters of an answer that a message repeats."""

_GZIP_FROM_BYTES = 2_000
"""Smaller bodies are not compressed: that would save less than a packet."""


class TokenUnreadable(Exception):
    """There should be a token and there is none that could be sent; the message never shows it."""


class BearerToken:
    """Where a job's token comes from.

    Args:
        file: file that holds it; None: the environment variable ``TIDEMARK_TOKEN``, if it is set.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    @property
    def origin(self) -> str | None:
        """Where the token comes from, for messages; None when the job has none."""
        if self._file is not None:
            return f"token file {self._file}"
        return f"environment variable {TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE) else None

    def read(self) -> str | None:
        """Return the token as it stands now; None when the job has none.

        Raises:
            TokenUnreadable: when the file cannot be read, or what it holds is no token.
        """
        if self._file is None:
            text = os.environ.get(TOKEN_VARIABLE, "")
        else:
            try:
                text = self._file.read_text(encoding="ascii")
            except OSError as error:
                raise TokenUnreadable(f"{self.origin}: {error.strerror}") from None
            except ValueError:
                # The error would quote what the file holds.
                raise TokenUnreadable(f"{self.origin} holds no token: it is not plain ASCII") from None
        token = text.strip()
        if not token:
            if self._file is None:
                return None
            raise TokenUnreadable(f"{self.origin} is empty")
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise TokenUnreadable(f"{self.origin} holds no token: there are spaces or odd characters in it")
        return token


def read_answer(value: Any, origin: str) -> BoundAnswer:
    """Return the answer in a decoded JSON ``value``; log where a mode or a pin in it is of a later release.

    Raises:
        ValueError: as ``read_bound_answer`` does.
    """
    answer = read_bound_answer(value)
    if (answer.mode, answer.pin) != (value["mode"], value.get("pin")):
        _log.warning("%s/%s: %s; %s said it", answer.job, answer.stream, answer.reason, origin)
    return answer


@dataclass(frozen=True, slots=True)
class LedgerGaps:
    """What a controller answers about the ledger of a query."""

    ranges: list[tuple[int, int]]
    """The batches that lack a report, as ranges."""
    late: LatePolicy | None = None
    """What the stream's policy says of late rows; None for what the job's call says."""


class ControllerUnavailable(Exception):
    """The controller did not answer, or cannot now: the same request may succeed later."""


class ControllerBroken(ControllerUnavailable):
    """This very request failed, perhaps it alone (status 500, a full share): others should have their turn."""


class TokenRejected(ControllerUnavailable):
    """The controller rejects the token; it may be in rotation, so trying again is right."""


class RequestRejected(Exception):
    """The controller itself rejected this very request for good: sending it again would not help."""


class ControllerClient:
    """Requests to one controller.

    Args:
        url: address of the controller, such as ``http://tidemark:8642``.
        token_file: file that holds a bearer token, read before each request so that rotation needs no restart; without
            one the environment variable ``TIDEMARK_TOKEN`` is used, if it is set.
        timeout_s: limit for each request, from the look-up of the name to the end of the answer, in seconds.
        transport: replaces the network, for tests.
    """

    def __init__(
        self,
        url: str,
        token_file: Path | None = None,
        timeout_s: float = 3.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = BearerToken(token_file)
        self._timeout_s = timeout_s
        self._http = open_http(transport)

    def bound(self, job: str, stream: str) -> BoundAnswer:
        """Return the bound for a stream.

        Raises:
            ControllerUnavailable: when there is no answer now, or none that this release can read.
            RequestRejected: when the controller rejects what is sent.
        """
        return self._answer(self._send("GET", job, stream, "bound"), job, stream)

    def watch(
        self, job: str, stream: str, etag: str | None, wait_s: float
    ) -> tuple[BoundAnswer, str | None] | None:
        """Wait for an answer other than the one that ``etag`` names; return it and its ETag, None if there is none.

        The controller holds the request for up to ``wait_s`` seconds. Whoever is in between may ignore the preference
        (RFC 7240): then the answer comes at once, also None, so the caller has to pause before it asks again.

        Args:
            etag: ETag of the answer that the caller holds; None for any answer, at once.
            wait_s: how long to wait, in seconds; parts of a second are left off.

        Raises:
            ControllerUnavailable: as ``bound`` does.
        """
        conditions = {} if etag is None else {"If-None-Match": etag, "Prefer": f"wait={int(wait_s)}"}
        response = self._send("GET", job, stream, "bound", headers=conditions, more_s=wait_s)
        if response.status_code == _NOT_MODIFIED:
            return None
        return self._answer(response, job, stream), response.headers.get("ETag")

    def report(self, report: Report) -> None:
        """Send a report. Raises as ``bound`` does."""
        sent = replace(report, sent_us=time.time_ns() // 1_000)
        self._send("POST", report.job, report.stream, "reports", body=sent)

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Send an acknowledgement. Raises as ``bound`` does."""
        self._send("POST", job, stream, "acks", body=acknowledgement)

    def late_rows(self, job: str, stream: str, counts: str) -> None:
        """Send ``LateCounts``, as JSON. Raises as ``bound`` does."""
        self._send("POST", job, stream, "late-rows", body=counts)

    def missing_batches(self, job: str, stream: str, query_id: str, from_batch: int) -> LedgerGaps:
        """Return which batches of a query, from one on, lack a report. Raises as ``bound`` does."""
        which = f"missing?query_id={quote(query_id, safe='')}&from_batch={from_batch}"
        response = self._send("GET", job, stream, which)
        try:
            answer = _object_in(response)
            ranges = [(int(gap["first"]), int(gap["last"])) for gap in answer["missing"]]
            late = answer["late"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(error) from None
        # What a newer release can say besides is not known here.
        return LedgerGaps(ranges, late if late in get_args(LatePolicy) else None)

    def sent_reports(
        self, job: str, stream: str, limit: int, cursor: str | None = None
    ) -> tuple[list[Report], str | None]:
        """Return a page of a stream's earlier reports, the newest first, and the cursor of the next page.

        Those of another version are left out. Raises as ``bound`` does.
        """
        which = f"reports/bodies?limit={limit}" + (
            "" if cursor is None else f"&cursor={quote(cursor, safe='')}"
        )
        response = self._send("GET", job, stream, which, more_s=_PAGE_S, max_bytes=_MAX_PAGE_BYTES)
        try:
            page = _object_in(response)
            sent, next_cursor = list(page["reports"]), page.get("next_cursor")
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from None
        reports = []
        for body in sent:
            with suppress(ValueError):
                reports.append(read_report(body))
        return reports, next_cursor

    def windows(self, job: str, stream: str, from_us: int) -> list[Window]:
        """Return the newest hundred windows that end after a time, in microseconds. Raises as ``bound`` does."""
        from tidemark.models.completeness.outcome import Window  # noqa: PLC0415 - few jobs ask for them

        response = self._send("GET", job, stream, f"windows?from_us={from_us}&limit=100", more_s=_PAGE_S)
        try:
            return [read_object(Window, window) for window in _object_in(response)["windows"]]
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from None

    def close(self) -> None:
        """Close the connections."""
        close(self._http)

    def _answer(self, response: httpx.Response, job: str, stream: str) -> BoundAnswer:
        try:
            answer = read_answer(_object_in(response), self.url)
        except ValueError as error:
            raise self._unreadable(error) from None
        if (answer.job, answer.stream) != (job, stream):
            raise ControllerUnavailable(f"{self.url} answered for {answer.job!r}/{answer.stream!r}")
        return answer

    def _unreadable(self, error: Exception) -> ControllerUnavailable:
        return ControllerUnavailable(f"{self.url} sent an answer that this release cannot read: {error!r}")

    def _send(
        self,
        method: Literal["GET", "POST"],
        job: str,
        stream: str,
        what: str,
        *,
        body: Report | Acknowledgement | str | None = None,
        headers: Mapping[str, str] | None = None,
        more_s: float = 0.0,
        max_bytes: int = MAX_BYTES,
    ) -> httpx.Response:
        url = f"{self.url}/v1/jobs/{quote(job, safe='')}/streams/{quote(stream, safe='')}/{what}"
        sent = {"Accept": "application/json", **self._authorization(), **(headers or {})}
        content: bytes | None = None
        named: str | None = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            text = body if isinstance(body, str) else json.dumps(to_json_object(body), separators=(",", ":"))
            content = text.encode()
            named = hashlib.sha256(content).hexdigest()
            if len(content) >= _GZIP_FROM_BYTES:
                sent["Content-Encoding"] = "gzip"
                content = gzip.compress(content, 5)
        limit_s = self._timeout_s + more_s + len(content or b"") / _BYTES_A_SECOND
        try:
            request = self._http.build_request(method, url, headers=sent, content=content)
            response = answer_to(self._http, request, limit_s, max_bytes)
        except UnusableAnswer as error:
            raise ControllerUnavailable(f"{self.url}: {error}") from None
        if response.status_code != _NOT_MODIFIED or "If-None-Match" not in sent:
            self._raise_unless_good(response, named)
        return response

    def _raise_unless_good(self, response: httpx.Response, named: str | None) -> None:
        """Raise unless the answer is good: to a body of the SHA-256 ``named``, or where none was sent."""
        status, answer = response.status_code, _object_in(response)
        is_named = named is not None and answer.get("body_sha256") == named
        if response.is_success and (named is None or is_named):
            return
        reason = f"{self.url}: {status} {_detail(answer) or response.reason_phrase}"
        if response.is_success:
            raise ControllerUnavailable(f"{reason}, and no receipt for what was sent; who answers there?")
        if status in _UNAUTHORISED:
            raise TokenRejected(f"token rejected: {reason} ({self._what_to_check()})")
        if is_named and status < _BROKEN and status != _TOO_MANY:
            raise RequestRejected(reason)
        # A proxy, too, may refuse one body alone, such as the largest.
        alone = is_named if status == _TOO_MANY else 400 <= status <= _BROKEN and status not in _LATER
        raise (ControllerBroken if alone else ControllerUnavailable)(reason)

    def _authorization(self) -> dict[str, str]:
        try:
            token = self._token.read()
        except TokenUnreadable as error:
            raise ControllerUnavailable(str(error)) from None
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _what_to_check(self) -> str:
        origin = self._token.origin
        if origin is None:
            return f"no token was sent: name its file in {TOKEN_FILE_KEY}, or set {TOKEN_VARIABLE}"
        return (
            f"check that the {origin} holds a token of this controller, not expired, and good for this stream"
        )


def _object_in(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _detail(problem: dict[str, Any]) -> str:
    try:
        errors = "; ".join(f"{error['pointer']}: {error['detail']}" for error in problem.get("errors") or [])
        return shorten(
            plain(f"{problem['title']}: {problem['detail']} {errors}"), _MAX_DETAIL, placeholder=" ..."
        )
    except (KeyError, TypeError):
        return ""
