"""The client: a controller from a Python program.

    >>> from tidemark.controller.client.client import Client
    >>> with Client("http://tidemark:8642", token_file=Path("/run/secrets/tidemark")) as tidemark:
    ...     tidemark.change_slo("shop", "clicks", {"target": "0.995"}, reason="agreed with the finance team")
    ...     for stream in tidemark.streams("shop"):
    ...         print(stream.stream, stream.recommended_bound_ms)

Answers are the classes of ``tidemark.controller.api.schemas``, checked; fields that a newer controller adds are passed
over. Lists come as iterators that ask for page after page. A specification is replaced only as it was read: when
somebody else has changed it meanwhile, ``ChangedError`` says so and nothing is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from tidemark.controller.api import schemas
from tidemark.controller.api.paths import pin_path, stream_path
from tidemark.controller.client.errors import (
    CannotAskError,
    ChangedError,
    ClientError,
    RefusedError,
    TokenRefusedError,
    UnreachableError,
)
from tidemark.controller.client.requests import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, Asker
from tidemark.models.rollout.states import State
from tidemark.models.wire import Acknowledgement, BoundAnswer, Pin, Report, to_json_object

__all__ = [
    "DEFAULT_URL",
    "TOKEN_VARIABLE",
    "URL_VARIABLE",
    "CannotAskError",
    "ChangedError",
    "Client",
    "ClientError",
    "RefusedError",
    "TokenRefusedError",
    "UnreachableError",
]

T = TypeVar("T")

PAGE = 100
"""Items asked for at a time; lists of jobs have no larger pages."""

POLL_SECONDS = 5.0
"""Pause of a watch where the controller, or a proxy before it, does not hold answers back."""

_NOT_WRITTEN = frozenset({"generation", "updated_us", "target_ppm"})
"""Fields of a specification as it is read that are no part of what is written."""


class Client:
    """A controller.

    Requests that may be made twice are tried again, with growing pauses, while nothing answers or the controller says
    that it is too busy. Use it as a context, or ``close`` it. It may be used from several threads.

        >>> with Client() as tidemark:  # TIDEMARK_URL and TIDEMARK_TOKEN, or this machine
        ...     print(tidemark.status("shop", "clicks").completeness)

    Args:
        url: its address; None: the environment variable ``TIDEMARK_URL``, or ``http://127.0.0.1:8642``.
        token: bearer token; None: the one in ``token_file``, or in the environment variable ``TIDEMARK_TOKEN``.
        token_file: file that holds the token, read for each request.
        timeout_seconds: how long an answer may take.
        attempts: how often a request is sent, at the most.
        sleep: waits for some seconds.

    Raises:
        CannotAskError: (every method) when there is no answer, or none of a controller's.
        RefusedError: (every method) when the controller refuses the request; it has the status and the problem type.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        timeout_seconds: float = 60.0,
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._asker = Asker(
            url,
            token=token,
            token_file=token_file,
            timeout_seconds=timeout_seconds,
            attempts=attempts,
            sleep=sleep,
        )

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._asker.close()

    @property
    def url(self) -> str:
        """Address of the controller."""
        return self._asker.url

    @property
    def token_file(self) -> Path | None:
        """File that holds the token; None for none."""
        return self._asker.token_file

    @property
    def has_token(self) -> bool:
        """Whether a token is sent."""
        return self._asker.has_token

    # -- what is known -------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Ask whether the controller can serve; raise when it cannot."""
        self._asker.ask("GET", "/readyz")

    def jobs(self) -> Iterator[schemas.JobSummary]:
        """Return the jobs by name, each with the worst condition of its streams."""
        return self._items("/v1/jobs", "jobs", schemas.JobSummary)

    def job(self, job: str) -> schemas.JobStatus:
        """Return what is known of a job."""
        return self._get(stream_path(job), schemas.JobStatus)

    def streams(self, job: str | None = None) -> Iterator[schemas.StreamSummary]:
        """Return the streams of a job, or all of them, by job and stream."""
        return self._items("/v1/streams", "streams", schemas.StreamSummary, {"job": job})

    def status(self, job: str, stream: str) -> schemas.StreamStatus:
        """Return all that is known of a stream."""
        return self._get(stream_path(job, stream), schemas.StreamStatus)

    def curve(self, job: str, stream: str, bounds_ms: Sequence[int] = ()) -> schemas.Curve:
        """Return completeness and latency of a stream by bound: at ``bounds_ms``, or where the curve bends."""
        return self._get(stream_path(job, stream, "/curve"), schemas.Curve, {"bound_ms": list(bounds_ms)})

    def partitions(self, job: str, stream: str) -> Iterator[schemas.Partition]:
        """Return the partitions of a stream by name."""
        return self._items(stream_path(job, stream, "/partitions"), "partitions", schemas.Partition)

    def predictions(self, job: str, stream: str) -> Iterator[schemas.Prediction]:
        """Return what was predicted of each published bound and how it came out, the newest first."""
        return self._items(stream_path(job, stream, "/predictions"), "predictions", schemas.Prediction)

    def reports(self, job: str, stream: str) -> Iterator[schemas.ReportFacts]:
        """Return the facts of each reported batch, the newest first."""
        return self._items(stream_path(job, stream, "/reports"), "reports", schemas.ReportFacts)

    def report(self, job: str, stream: str, query_id: str, batch_id: int) -> schemas.ReportDetail:
        """Return the facts of one reported batch, and its partitions."""
        where = f"/reports/{quote(query_id, safe='')}/{batch_id}"
        return self._get(stream_path(job, stream, where), schemas.ReportDetail)

    def acknowledgements(self, job: str, stream: str) -> Iterator[schemas.AcknowledgementFacts]:
        """Return what runs of the job said they applied, the one applied last first."""
        return self._items(
            stream_path(job, stream, "/acks"), "acknowledgements", schemas.AcknowledgementFacts
        )

    def bounds(self, job: str, stream: str) -> Iterator[schemas.PublishedBound]:
        """Return what jobs were told, generation by generation, the newest first."""
        return self._items(stream_path(job, stream, "/bounds"), "bounds", schemas.PublishedBound)

    # -- what is asked for ---------------------------------------------------------------------------------------

    def slo(self, job: str, stream: str) -> schemas.SloAnswer | None:
        """Return the SLO of a stream; None when there is none, or nothing is known of the stream."""
        found = self._read_or_none(stream_path(job, stream, "/slo"))
        return None if found is None else _checked(schemas.SloAnswer, found)

    def policy(self, job: str, stream: str) -> schemas.PolicyAnswer | None:
        """Return the policy of a stream, the default one when none was set; None for an unknown stream."""
        found = self._read_or_none(stream_path(job, stream, "/policy"))
        return None if found is None else _checked(schemas.PolicyAnswer, found)

    def change_slo(
        self,
        job: str,
        stream: str,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> schemas.SloSet:
        """Change fields of the SLO of a stream, or set one; the rest stays as it is. The answer says what follows.

            >>> tidemark.change_slo("shop", "clicks", {"target": "0.999", "latency_cap_ms": 900_000}, dry_run=True)

        Args:
            job: name of the job.
            stream: name of the stream.
            changes: fields as the API names them; ``target`` is a decimal string.
            reason: why, for the event that it leaves.
            dry_run: only say what would follow.

        Raises:
            ChangedError: when somebody else changed it at the same time; nothing was written.
        """
        where = stream_path(job, stream, "/slo")
        return self._change(where, changes, schemas.SloSet, reason=reason, dry_run=dry_run)

    def change_policy(
        self,
        job: str,
        stream: str,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> schemas.PolicySet:
        """Change fields of the policy of a stream; the rest stays as it is. The answer says what follows.

            >>> tidemark.change_policy("shop", "clicks", {"mode": "OnRestart"}, reason="it has watched for a week")

        Args:
            job: name of the job.
            stream: name of the stream.
            changes: fields as the API names them.
            reason: why, for the event that it leaves.
            dry_run: only say what would follow.

        Raises:
            ChangedError: when somebody else changed it at the same time; nothing was written.
        """
        where = stream_path(job, stream, "/policy")
        return self._change(where, changes, schemas.PolicySet, reason=reason, dry_run=dry_run)

    # -- rollouts ------------------------------------------------------------------------------------------------

    def rollouts(
        self, job: str | None = None, stream: str | None = None, *, states: Sequence[State] = ()
    ) -> Iterator[schemas.RolloutAnswer]:
        """Return the rollouts of a stream, of a job, or of the whole fleet, the newest first.

        Args:
            job: only of this job.
            stream: only of this stream of the job.
            states: only those in one of these states; all of them when it is empty.
        """
        found = self._items(
            _within(job, stream, "/rollouts"), "rollouts", schemas.RolloutAnswer, {"state": states}
        )
        return (row for row in found if job is None or row.job == job)

    def rollout(self, job: str, stream: str, rollout_id: int) -> schemas.RolloutDetail:
        """Return a rollout and how it came to where it is."""
        return self._get(stream_path(job, stream, f"/rollouts/{rollout_id}"), schemas.RolloutDetail)

    def approve(
        self, job: str, stream: str, rollout_id: int, reason: str, *, dry_run: bool = False
    ) -> schemas.RolloutAnswer:
        """Approve a rollout; it is published once nothing holds it. With ``dry_run`` only say what would follow."""
        where = stream_path(job, stream, f"/rollouts/{rollout_id}:approve")
        return self._act(where, reason, schemas.RolloutAnswer, dry_run=dry_run)

    def discard(
        self, job: str, stream: str, rollout_id: int, reason: str, *, dry_run: bool = False
    ) -> schemas.RolloutAnswer:
        """Turn down a rollout that no job was told of. With ``dry_run`` only say what would follow."""
        where = stream_path(job, stream, f"/rollouts/{rollout_id}:discard")
        return self._act(where, reason, schemas.RolloutAnswer, dry_run=dry_run)

    def roll_back(
        self, job: str, stream: str, rollout_id: int, reason: str, *, dry_run: bool = False
    ) -> schemas.RolloutAnswer:
        """Tell jobs again what they were told before a rollout. With ``dry_run`` only say what would follow."""
        where = stream_path(job, stream, f"/rollouts/{rollout_id}:rollback")
        return self._act(where, reason, schemas.RolloutAnswer, dry_run=dry_run)

    def pause(self, job: str, stream: str, reason: str, *, dry_run: bool = False) -> schemas.PolicyAnswer:
        """Roll nothing new; what is under way is still watched. With ``dry_run`` only say what would follow."""
        where = stream_path(job, stream, ":pause")
        return self._act(where, reason, schemas.PolicyAnswer, dry_run=dry_run)

    def resume(self, job: str, stream: str, reason: str, *, dry_run: bool = False) -> schemas.PolicyAnswer:
        """Take a pause back. With ``dry_run`` only say what would follow."""
        where = stream_path(job, stream, ":resume")
        return self._act(where, reason, schemas.PolicyAnswer, dry_run=dry_run)

    def events(
        self, job: str | None = None, stream: str | None = None, *, kind: str | None = None
    ) -> Iterator[schemas.Event]:
        """Return what changed, why and by whom, the newest first: of a stream, of a job, or of the whole fleet.

        Args:
            job: only of this job.
            stream: only of this stream of the job.
            kind: only of this kind, such as ``RolloutRolledBack``.
        """
        found = self._items(_within(job, stream, "/events"), "events", schemas.Event, {"kind": kind})
        return (row for row in found if job is None or row.job == job)

    # -- kill switches -------------------------------------------------------------------------------------------

    def pins(self) -> Iterator[schemas.PinSummary]:
        """Return the pins there are: the fleet's, then by job and stream."""
        return self._items("/v1/pins", "pins", schemas.PinSummary)

    def pin(
        self,
        to: Pin,
        reason: str,
        job: str | None = None,
        stream: str | None = None,
        *,
        fleet: bool = False,
        dry_run: bool = False,
    ) -> schemas.PinAnswer:
        """Hold a stream, a job, or with ``fleet`` all there are; the answer says what it costs.

        Raises:
            ValueError: when it is not said what to pin.
        """
        body = {"to": to, "reason": reason}
        where = pin_path(job, stream, fleet=fleet)
        answer = self._asker.ask("PUT", where, body=body, params=_tried(dry_run))
        return _checked(schemas.PinAnswer, answer.content)

    def unpin(
        self,
        job: str | None = None,
        stream: str | None = None,
        *,
        fleet: bool = False,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> schemas.PinAnswer:
        """Take a pin away from a stream, a job, or with ``fleet`` from the fleet.

        Raises:
            ValueError: when it is not said which.
        """
        params = {"reason": reason, **_tried(dry_run)}
        answer = self._asker.ask("DELETE", pin_path(job, stream, fleet=fleet), params=params)
        return _checked(schemas.PinAnswer, answer.content)

    # -- what jobs say and hear ----------------------------------------------------------------------------------

    def send_report(self, report: Report) -> schemas.Receipt:
        """Report a batch; again with the same content it changes nothing."""
        where = stream_path(report.job, report.stream, "/reports")
        answer = self._asker.ask("POST", where, body=to_json_object(report), twice=True)
        return _checked(schemas.Receipt, answer.content)

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> schemas.Receipt:
        """Say what a run of the job applied; again with the same content it changes nothing."""
        where = stream_path(job, stream, "/acks")
        answer = self._asker.ask("POST", where, body=to_json_object(acknowledgement), twice=True)
        return _checked(schemas.Receipt, answer.content)

    def bound(self, job: str, stream: str) -> BoundAnswer:
        """Return which bound the job is to use, or why there is none."""
        return self._get(stream_path(job, stream, "/bound"), BoundAnswer)

    def watch(self, job: str, stream: str, *, wait_seconds: int = 50) -> Iterator[BoundAnswer]:
        """Return which bound the job is to use, now and whenever it is another one; it ends only by an error.

            >>> for answer in tidemark.watch("shop", "clicks"):
            ...     print(answer.generation, answer.bound_ms, answer.reason)

        The controller holds each answer back until it changes, so that a change is heard at once. A controller that
        is gone for a while is waited for, as with every read; then the error says so, and a new watch goes on.

        Args:
            job: name of the job.
            stream: name of the stream.
            wait_seconds: how long one request waits; proxies often give up after a minute.
        """
        held: str | None = None
        while True:
            headers = {} if held is None else {"If-None-Match": held, "Prefer": f"wait={wait_seconds}"}
            answer = self._asker.ask(
                "GET", stream_path(job, stream, "/bound"), headers=headers, extra_seconds=wait_seconds
            )
            if answer.status_code != httpx.codes.NOT_MODIFIED:
                held = answer.headers.get("etag")
                yield _checked(BoundAnswer, answer.content)
            if held is None or (headers and "preference-applied" not in answer.headers):
                self._asker.sleep(POLL_SECONDS)

    # -- how it is asked -----------------------------------------------------------------------------------------

    def ask(
        self,
        method: Literal["GET", "PUT", "POST", "DELETE"],
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        twice: bool = False,
    ) -> dict[str, Any]:
        """Return the object that answers any request, unchecked: for what has no method of its own here.

        Args:
            method: HTTP method.
            path: path under the address, encoded.
            body: what is sent as JSON; None for nothing.
            params: query parameters.
            twice: whether a post may be sent again.
        """
        answer = self._asker.ask(method, path, body=body, params=params, twice=twice)
        found: dict[str, Any] = answer.json()
        return found

    def _get(self, path: str, kind: type[T], params: Mapping[str, Any] | None = None) -> T:
        return _checked(kind, self._asker.ask("GET", path, params=params).content)

    def _items(
        self, path: str, name: str, kind: type[T], params: Mapping[str, Any] | None = None
    ) -> Iterator[T]:
        cursor: str | None = None
        while True:
            asked = {**(params or {}), "limit": PAGE, "cursor": cursor}
            page = self._asker.ask("GET", path, params=asked).json()
            if not isinstance(page.get(name), list):
                raise CannotAskError(f"what is at {self.url} does not list {name} as a controller does")
            for item in page[name]:
                yield _checked(kind, item)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def _act(self, path: str, reason: str, kind: type[T], *, dry_run: bool) -> T:
        # Every act is one that may be made twice.
        answer = self._asker.ask("POST", path, body={"reason": reason}, params=_tried(dry_run), twice=True)
        return _checked(kind, answer.content)

    def _read_or_none(self, path: str) -> bytes | None:
        try:
            return self._asker.ask("GET", path).content
        except RefusedError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def _change(
        self, path: str, changes: Mapping[str, Any], kind: type[T], *, reason: str | None, dry_run: bool
    ) -> T:
        headers: dict[str, str] = {}
        body: dict[str, Any] = {}
        try:
            held = self._asker.ask("GET", path)
        except RefusedError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
        else:
            headers["If-Match"] = held.headers.get("etag", "*")
            body = {name: value for name, value in held.json().items() if name not in _NOT_WRITTEN}
        params = {"reason": reason, **_tried(dry_run)}
        try:
            answer = self._asker.ask("PUT", path, body={**body, **changes}, params=params, headers=headers)
        except ChangedError as error:
            raise ChangedError(
                error.status,
                error.kind,
                f"{path} was changed by somebody else at the same time and nothing was written; try again",
            ) from error
        return _checked(kind, answer.content)


def _within(job: str | None, stream: str | None, what: str) -> str:
    """Return the path of a list of a stream; of the whole fleet without one, for a job too."""
    if stream is not None and job is None:
        raise ValueError("a stream goes with its job")
    return f"/v1{what}" if job is None or stream is None else stream_path(job, stream, what)


def _tried(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _checked(kind: type[T], document: object) -> T:
    """Return an answer, from bytes or from what they hold."""
    adapter: TypeAdapter[T] = _adapter(cast("Any", kind))
    try:
        # JSON has no tuples: strictness is for requests.
        if isinstance(document, bytes):
            value = adapter.validate_json(document, strict=False, extra="ignore")
        else:
            value = adapter.validate_python(document, strict=False, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise CannotAskError(
            f"the controller's answer cannot be read ({where}: {first['msg']}); is it of another release?"
        ) from None
    return value
