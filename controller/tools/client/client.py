"""The client: a controller from a Python program.

    >>> from tidemark.controller.tools.client import Client
    >>> with Client("http://tidemark:8642", token_file=Path("/run/secrets/tidemark")) as tidemark:
    ...     tidemark.change_slo("shop", "clicks", {"target_ppm": 995_000}, reason="agreed with the finance team")
    ...     for stream in tidemark.fleet("shop"):
    ...         print(stream.stream, stream.recommended_bound_ms)

Answers are the classes of ``tidemark.controller.server.schemas``, checked; unknown fields, which a newer controller may
add, are ignored. Lists are iterators that request page after page. A specification is replaced only if it is still as
it was read: when somebody else has changed it meanwhile, ``ChangedError`` says so and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from tidemark.controller.server.schemas.bounds import (
    AcknowledgementFacts,
    Prediction,
    Published,
    Receipt,
)
from tidemark.controller.server.schemas.charts import CurveAnswer, Preview
from tidemark.controller.server.schemas.fleet import (
    FleetPage,
    FleetStream,
    JobStatus,
    JobSummary,
    Narrowing,
    StreamAdopted,
    StreamDeleted,
)
from tidemark.controller.server.schemas.joins import JoinAnswer, NamedJoin
from tidemark.controller.server.schemas.partitions import LostAnswer, Partition
from tidemark.controller.server.schemas.pins import PinAnswer
from tidemark.controller.server.schemas.reports import ReportSummary
from tidemark.controller.server.schemas.rollouts import Event, RolloutAnswer, RolloutDetail
from tidemark.controller.server.schemas.savings import SavingsPage
from tidemark.controller.server.schemas.service import Caller, SignIn, TokenAnswer, TokenMade
from tidemark.controller.server.schemas.specs import PolicyAnswer, PolicySet, SloAnswer, SloSet
from tidemark.controller.server.schemas.streams import StreamStatus
from tidemark.controller.server.schemas.windows import Window
from tidemark.controller.tools.client.address import stream_path
from tidemark.controller.tools.client.errors import ChangedError
from tidemark.controller.tools.client.operations import (
    act,
    change,
    checked,
    delete,
    in_query,
    items,
    pages,
    read,
    read_or_none,
    send,
)
from tidemark.controller.tools.client.transport import Transport
from tidemark.models.protocol.messages import Acknowledgement, BoundAnswer, Pin, Report, to_json_object
from tidemark.models.rollout.states import State
from tidemark.models.specs.pin import StoredPin

T = TypeVar("T")

POLL_SECONDS = 5.0
"""Pause between the requests of a watch or a wait when the controller, or a proxy, does not hold answers back."""

WAIT_SECONDS = 50
"""How long one request of a wait waits: many proxies end a request after a minute."""

_JOB = "/v1/jobs/{job}"
_JOIN = f"{_JOB}/joins/{{join}}"
_STREAM = f"{_JOB}/streams/{{stream}}"
_SLO, _POLICY = f"{_STREAM}/slo", f"{_STREAM}/policy"
_ROLLOUT = f"{_STREAM}/rollouts/{{rollout_id}}"


class Client(Transport):
    """A controller.

    Idempotent requests are retried, with growing pauses, while nothing answers or the controller says that it is too
    busy. Each request has a connection of its own: nothing stays open, and it may be used from several threads.

        >>> with Client() as tidemark:  # TIDEMARK_URL and TIDEMARK_TOKEN, or this machine
        ...     print(tidemark.status("shop", "clicks").completeness)

    Args:
        url: its address; None: the environment variable ``TIDEMARK_URL``, or ``http://127.0.0.1:8642``.
        token: bearer token; None: the one in ``token_file``, or in the environment variable ``TIDEMARK_TOKEN``.
        token_file: file that holds the token, read for each request.
        timeout_seconds: how long an answer may take.
        attempts: how often a request is sent at most.
        sleep: waits for a number of seconds.
        signed_in: returns the token of who has signed in at an address, where there is no other.

    Raises:
        ControllerUnusableError: (every method) when there is no answer, or none that can be used.
        RequestRejectedError: (every method) when the controller rejects the request; it has the status and the problem
            type.
    """

    ready = read("/readyz", dict[str, Any])
    """Check that the controller can serve; it is rejected when it cannot."""
    caller = read("/v1/caller?job", Caller)
    """Who calls, and which rights that gives over a job, or without one over the fleet."""
    sign_in = read("/v1/sign-in", SignIn)
    """The issuers at which people sign in."""
    jobs = items("/v1/jobs", JobSummary)
    """The jobs by name, each with the worst condition of its streams."""
    job = read(_JOB, JobStatus)
    """The state of a job."""
    fleet = items("/v1/fleet?job", FleetStream, "streams")
    """The streams of a job, or all of them, those with the smallest budget left first."""
    savings = pages("/v1/savings?job", SavingsPage)
    """What the streams of a job, or all of them, would save: page after page, each with the totals."""
    status = read(_STREAM, StreamStatus)
    """The whole state of a stream."""
    status_unchecked = read(_STREAM, dict[str, Any])
    """The same as JSON has it, with what a newer controller says."""
    curve = read(f"{_STREAM}/curve?bound_ms", CurveAnswer)
    """Completeness and latency of a stream by bound: at some bounds, or where the curve bends."""
    preview = read(f"{_STREAM}/preview?bound_ms", Preview)
    """What a bound would do."""
    lost = read(f"{_STREAM}/lost?dimension&window_ms&limit", LostAnswer)
    """Which values of a dimension lose rows."""
    partitions = items(f"{_STREAM}/partitions", Partition)
    """The partitions of a stream by name."""
    windows = items(f"{_STREAM}/windows?state&share_ppm&from_us&to_us", Window)
    """The windows of a stream, the newest first: what has come of each, what counts, and what is to come."""
    window = read(f"{_STREAM}/windows/{{end_us}}?share_ppm&span_us", Window)
    """The window that ends at a time, or the windows of a span as one."""
    predictions = items(f"{_STREAM}/predictions", Prediction)
    """The prediction of each published bound and how it turned out, the newest first."""
    reports = items(f"{_STREAM}/reports", ReportSummary)
    """The facts of each reported batch, the newest first."""
    report_bodies = items(f"{_STREAM}/reports/bodies", Report, "reports")
    """The reports as they were sent, with all counts, the newest batch first."""
    acknowledgements = items(f"{_STREAM}/acks", AcknowledgementFacts, "acknowledgements")
    """The bounds that runs of the job acknowledged, the one applied last first."""
    bounds = items(f"{_STREAM}/bounds", Published)
    """What was published, generation by generation, the newest first."""
    bound = read(f"{_STREAM}/bound", BoundAnswer)
    """The bound that the job should use, or why there is none."""
    adopt = send("POST", f"{_STREAM}:adopt?former&reason&dry_run", StreamAdopted)
    """Let a stream go on as another one of its job, ``former``."""

    slo = read_or_none(_SLO, SloAnswer)
    """The SLO of a stream; None when it has none or is unknown."""
    change_slo = change(_SLO, SloSet)
    """Change fields of the SLO of a stream, or set one; the answer has the consequences."""
    delete_slo = delete(_SLO, SloSet)
    """Delete the SLO of a stream; the answer has it as it was, and the consequences."""
    policy = read_or_none(_POLICY, PolicyAnswer)
    """The policy of a stream, the default one when none was set; None when the stream is unknown."""
    change_policy = change(_POLICY, PolicySet)
    """Change fields of the policy of a stream; the answer has the consequences."""
    delete_policy = delete(_POLICY, PolicySet)
    """Delete the policy of a stream, so that the default one holds; the answer has it as it was."""
    joins = items(f"{_JOB}/joins", NamedJoin)
    """The joins of a job by name, each with its SLO and how it is doing."""
    join = read(_JOIN, JoinAnswer)
    """The SLO on the output of a join, and how the join is doing."""
    change_join = change(_JOIN, JoinAnswer)
    """Change fields of the SLO on the output of a join, or set one."""
    delete_join = delete(_JOIN, JoinAnswer)
    """Delete the SLO on the output of a join; the answer has it as it was."""

    rollout = read(_ROLLOUT, RolloutDetail)
    """A rollout with its events."""
    approve = act(f"{_ROLLOUT}:approve", RolloutAnswer)
    """Approve a rollout; it is published once no gate holds it."""
    discard = act(f"{_ROLLOUT}:discard", RolloutAnswer)
    """Discard a rollout that is not published yet."""
    roll_back = act(f"{_ROLLOUT}:rollback", RolloutAnswer)
    """Publish again what was published before a rollout."""
    lift = act(f"{_ROLLOUT}:lift", RolloutAnswer)
    """Lift the veto on a rollout that a person discarded or rolled back."""
    pause = act(f"{_STREAM}:pause", PolicyAnswer)
    """Start no new rollout; the one under way is still watched."""
    resume = act(f"{_STREAM}:resume", PolicyAnswer)
    """End a pause."""

    pins = items("/v1/pins", StoredPin)
    """The pins: the fleet's first, then by job and stream."""
    tokens = items("/v1/tokens?name", TokenAnswer)
    """The tokens, or those of one name, by number."""
    create_token = send("POST", "/v1/tokens?body", TokenMade)
    """Create a token, which only this answer shows."""
    rotate_token = send("POST", "/v1/tokens/{token_id}:rotate?body", TokenMade)
    """Create the successor of a token."""
    revoke_token = send("DELETE", "/v1/tokens/{token_id}", TokenAnswer)
    """Revoke a token."""

    _fleet_page = read("/v1/fleet?limit", FleetPage)
    _rollouts = items("/v1/rollouts?state&vetoed&id", RolloutAnswer)
    _rollouts_of_stream = items(f"{_STREAM}/rollouts?state&vetoed&id", RolloutAnswer)
    _events = items("/v1/events?kind", Event)
    _events_of_stream = items(f"{_STREAM}/events?kind", Event)
    _delete_pin = send("DELETE", "/v1/pin?job&stream&reason&dry_run", PinAnswer)
    _send_report = send("POST", f"{_STREAM}/reports?body", Receipt, idempotent=True)
    _acknowledge = send("POST", f"{_STREAM}/acks?body", Receipt, idempotent=True)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave nothing open: each request has a connection of its own."""

    def narrowing(self) -> Narrowing:
        """Return how many streams of the fleet are being narrowed, and how many may be at once."""
        return self._fleet_page(limit=1).narrowing

    def rollouts(
        self,
        job: str | None = None,
        stream: str | None = None,
        *,
        states: Sequence[State] = (),
        vetoed: bool = False,
        rollout_id: int | None = None,
    ) -> Iterator[RolloutAnswer]:
        """Return the rollouts of a stream, of a job, or of the whole fleet, the newest first.

        Args:
            job: only of this job.
            stream: only of this stream of the job.
            states: only those in one of these states; all of them when it is empty.
            vetoed: only those that a person vetoed.
            rollout_id: only that of this number; only for the whole fleet.
        """
        query = {"state": states, "vetoed": vetoed or None, "id": rollout_id}
        return _within(job, stream, self._rollouts, self._rollouts_of_stream, query)

    def events(
        self, job: str | None = None, stream: str | None = None, *, kind: str | None = None
    ) -> Iterator[Event]:
        """Return what changed, why and by whom, the newest first: of a stream, of a job, or of the whole fleet.

        Args:
            job: only of this job.
            stream: only of this stream of the job.
            kind: only of this kind, such as ``RolloutRolledBack``.
        """
        return _within(job, stream, self._events, self._events_of_stream, {"kind": kind})

    def delete_stream(
        self, job: str, stream: str, reason: str, *, while_reporting: bool = False, dry_run: bool = False
    ) -> StreamDeleted:
        """Delete a stream with all of its data; return how many rows were stored of it. It cannot be undone.

        Args:
            reason: why, recorded in the event.
            while_reporting: delete it although its job still reports; it begins anew with the next report.
            dry_run: delete nothing, only answer what would be deleted.

        Raises:
            RequestRejectedError: when the job still reports (``stream-reports``).
            ChangedError: when somebody else changed it at the same time; then nothing is deleted.
        """
        where, query = stream_path(job, stream), {"reason": reason, "while_reporting": while_reporting}
        answer = self.send("DELETE", where, params=in_query({**query, "dry_run": True}))
        if not dry_run:
            headers = {"If-Match": answer.headers.get("etag", "*")}
            answer = self.send("DELETE", where, params=in_query(query), headers=headers)
        return checked(StreamDeleted, answer.content)

    def pin(
        self,
        to: Pin,
        reason: str,
        job: str | None = None,
        stream: str | None = None,
        *,
        fleet: bool = False,
        dry_run: bool = False,
    ) -> PinAnswer:
        """Pin a stream, a job, or with ``fleet`` all streams, whatever they were pinned to; return what it costs.

        Raises:
            ValueError: when the arguments name no scope.
        """
        _check_scope(job, stream, fleet=fleet)
        body, params = (
            {"to": to, "reason": reason},
            in_query({"job": job, "stream": stream, "dry_run": dry_run}),
        )
        try:
            answer = self.send("PUT", "/v1/pin", body=body, params=params)
        except ChangedError:
            # A kill switch replaces any other, and does not wait to read it.
            answer = self.send("PUT", "/v1/pin", body=body, params=params, headers={"If-Match": "*"})
        return checked(PinAnswer, answer.content)

    def unpin(
        self,
        job: str | None = None,
        stream: str | None = None,
        *,
        fleet: bool = False,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> PinAnswer:
        """Remove the pin of a stream, a job, or with ``fleet`` the fleet.

        Raises:
            ValueError: when the arguments name no scope.
        """
        _check_scope(job, stream, fleet=fleet)
        return self._delete_pin(job, stream, reason, dry_run)

    def send_report(self, report: Report) -> Receipt:
        """Report a batch; sending the same content again changes nothing."""
        return self._send_report(report.job, report.stream, to_json_object(report))

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> Receipt:
        """Acknowledge what a run of the job applied; sending the same content again changes nothing."""
        return self._acknowledge(job, stream, to_json_object(acknowledgement))

    def watch(self, job: str, stream: str, *, wait_seconds: int = 50) -> Iterator[BoundAnswer]:
        """Yield the bound that the job should use, now and at each change, without end.

            >>> for answer in tidemark.watch("shop", "clicks"):
            ...     print(answer.generation, answer.bound_ms, answer.reason)

        The controller holds each answer back until the bound changes, so that a change arrives at once. Like every
        read it is retried while the controller is away; after the last attempt it raises, and a new watch may begin.

        Args:
            wait_seconds: how long one request waits; many proxies end a request after a minute.
        """
        where = stream_path(job, stream, "/bound")
        etag: str | None = None
        while True:
            headers = {} if etag is None else {"If-None-Match": etag, "Prefer": f"wait={wait_seconds}"}
            answer = self.send("GET", where, headers=headers, extra_seconds=wait_seconds)
            if answer.status_code != httpx.codes.NOT_MODIFIED:
                etag = answer.headers.get("etag")
                yield checked(BoundAnswer, answer.content)
            if etag is None or (headers and "preference-applied" not in answer.headers):
                self._sleep(POLL_SECONDS)

    def wait_for_window(
        self, job: str, stream: str, end_us: int, *, timeout_seconds: float, **asked: int | None
    ) -> Window:
        """Return a window once a share of its rows has come and counts, or cannot any more, or the time is up.

        Args:
            job: name of the job.
            stream: name of the stream.
            end_us: end of the window, in microseconds since the epoch.
            timeout_seconds: how long to wait at most.
            asked: the share and the span, ``share_ppm`` and ``span_us``, as of ``window``.
        """
        where, until = stream_path(job, stream, f"/windows/{end_us}"), monotonic() + timeout_seconds
        while True:
            left = min(max(round(until - monotonic()), 0), WAIT_SECONDS)
            query, headers = in_query(asked), {"Prefer": f"wait={left}"}
            answer = self.send("GET", where, params=query, headers=headers, extra_seconds=left)
            window = checked(Window, answer.content)
            if window.outcome in {"Reached", "Unreachable"} or monotonic() >= until - 1:
                return window
            if "preference-applied" not in answer.headers:
                self._sleep(POLL_SECONDS)


def _within(
    job: str | None,
    stream: str | None,
    of_all: Callable[..., Iterator[T]],
    of_stream: Callable[..., Iterator[T]],
    query: dict[str, Any],
) -> Iterator[T]:
    """Return the stream's own list, or the fleet's; of that only what is of the job, if one is named."""
    if job is not None and stream is not None:
        return of_stream(job, stream, **query)
    if stream is not None:
        raise ValueError("a stream needs its job")
    return (row for row in of_all(**query) if job is None or getattr(row, "job", None) == job)


def _check_scope(job: str | None, stream: str | None, *, fleet: bool) -> None:
    """Check that a stream, a job, or the whole fleet is named, and the fleet by its name alone."""
    if fleet and (job is not None or stream is not None):
        raise ValueError("a pin is on the fleet, or on a job or a stream: leave one out")
    if job is None and stream is not None:
        raise ValueError("a stream goes with its job")
    if job is None and not fleet:
        raise ValueError("name what it is on: a job, a job and a stream, or the whole fleet")
