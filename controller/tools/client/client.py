"""The client: a controller from a Python program.

    >>> from tidemark.controller.tools.client import Client
    >>> with Client("http://tidemark:8642", token_file=Path("/run/secrets/tidemark")) as tidemark:
    ...     tidemark.change_slo("shop", "clicks", {"target_ppm": 995_000}, reason="agreed with the finance team")
    ...     for stream in tidemark.streams("shop"):
    ...         print(stream.stream, stream.recommended_bound_ms)

Answers are the classes of ``tidemark.controller.server.schemas``, checked; unknown fields, which a newer controller may
add, are ignored. Lists are iterators that request page after page. A specification is replaced only if it is still as
it was read: when somebody else has changed it meanwhile, ``ChangedError`` says so and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

import httpx

from tidemark.controller.server.schemas.bounds import (
    AcknowledgementFacts,
    Prediction,
    PublishedBound,
    Receipt,
)
from tidemark.controller.server.schemas.charts import CurveAnswer
from tidemark.controller.server.schemas.fleet import (
    FleetPage,
    FleetStream,
    JobStatus,
    JobSummary,
    Narrowing,
    StreamAdopted,
    StreamDeleted,
)
from tidemark.controller.server.schemas.partitions import Partition
from tidemark.controller.server.schemas.pins import PinAnswer, PinSummary
from tidemark.controller.server.schemas.reports import ReportDetail, ReportSummary
from tidemark.controller.server.schemas.rollouts import Event, RolloutAnswer, RolloutDetail
from tidemark.controller.server.schemas.savings import SavingsPage
from tidemark.controller.server.schemas.specs import PolicyAnswer
from tidemark.controller.server.schemas.streams import StreamStatus
from tidemark.controller.tools.client.address import pin_query, stream_path
from tidemark.controller.tools.client.base import PAGE, checked, dry_run_params
from tidemark.controller.tools.client.errors import ChangedError
from tidemark.controller.tools.client.specifications import SpecificationsClient
from tidemark.models.protocol.messages import Acknowledgement, BoundAnswer, Pin, Report, to_json_object
from tidemark.models.rollout.states import State

_POLL_SECONDS = 5.0
"""Pause between the requests of a watch when the controller, or a proxy before it, does not hold answers back."""


class Client(SpecificationsClient):
    """A controller.

    Idempotent requests are retried, with growing pauses, while nothing answers or the controller says that it is too
    busy. Use it as a context manager, or ``close`` it. It may be used from several threads.

        >>> with Client() as tidemark:  # TIDEMARK_URL and TIDEMARK_TOKEN, or this machine
        ...     print(tidemark.status("shop", "clicks").completeness)

    Args:
        url: its address; None: the environment variable ``TIDEMARK_URL``, or ``http://127.0.0.1:8642``.
        token: bearer token; None: the one in ``token_file``, or in the environment variable ``TIDEMARK_TOKEN``.
        token_file: file that holds the token, read for each request.
        timeout_seconds: how long an answer may take.
        attempts: how often a request is sent at most.
        sleep: waits for a number of seconds.

    Raises:
        ControllerUnusableError: (every method) when there is no answer, or none that can be used.
        RequestRejectedError: (every method) when the controller rejects the request; it has the status and the problem
            type.
    """

    # -- state ---------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Check that the controller can serve.

        Raises:
            RequestRejectedError: when it cannot.
        """
        self._send("GET", "/readyz")

    def jobs(self) -> Iterator[JobSummary]:
        """Return the jobs by name, each with the worst condition of its streams."""
        return self._items("/v1/jobs", "jobs", JobSummary)

    def job(self, job: str) -> JobStatus:
        """Return the state of a job."""
        return self._get(stream_path(job), JobStatus)

    def fleet(self, job: str | None = None) -> Iterator[FleetStream]:
        """Return the streams of a job, or all of them, those with the smallest budget left first."""
        return self._items("/v1/fleet", "streams", FleetStream, {"job": job})

    def narrowing(self) -> Narrowing:
        """Return how many streams of the fleet are being narrowed, and how many may be at once."""
        return self._get("/v1/fleet", FleetPage, {"limit": 1}).narrowing

    def savings(self, job: str | None = None) -> Iterator[SavingsPage]:
        """Return what the streams of a job, or all of them, would save: page after page, each with the totals."""
        cursor: str | None = None
        while True:
            page = self._get("/v1/savings", SavingsPage, {"job": job, "limit": PAGE, "cursor": cursor})
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    def status(self, job: str, stream: str) -> StreamStatus:
        """Return the whole state of a stream."""
        return self._get(stream_path(job, stream), StreamStatus)

    def curve(self, job: str, stream: str, bounds_ms: Sequence[int] = ()) -> CurveAnswer:
        """Return completeness and latency of a stream by bound: at ``bounds_ms``, or where the curve bends."""
        return self._get(stream_path(job, stream, "/curve"), CurveAnswer, {"bound_ms": list(bounds_ms)})

    def partitions(self, job: str, stream: str) -> Iterator[Partition]:
        """Return the partitions of a stream by name."""
        return self._items(stream_path(job, stream, "/partitions"), "partitions", Partition)

    def predictions(self, job: str, stream: str) -> Iterator[Prediction]:
        """Return the prediction of each published bound and how it turned out, the newest first."""
        return self._items(stream_path(job, stream, "/predictions"), "predictions", Prediction)

    def reports(self, job: str, stream: str) -> Iterator[ReportSummary]:
        """Return the facts of each reported batch, the newest first."""
        return self._items(stream_path(job, stream, "/reports"), "reports", ReportSummary)

    def report(self, job: str, stream: str, query_id: str, batch_id: int) -> ReportDetail:
        """Return the facts of one reported batch and its partitions."""
        where = f"/reports/{quote(query_id, safe='')}/{batch_id}"
        return self._get(stream_path(job, stream, where), ReportDetail)

    def report_bodies(self, job: str, stream: str) -> Iterator[Report]:
        """Return the reports as they were sent, with all counts, the newest batch first."""
        return self._items(stream_path(job, stream, "/reports/bodies"), "reports", Report)

    def acknowledgements(self, job: str, stream: str) -> Iterator[AcknowledgementFacts]:
        """Return the bounds that runs of the job acknowledged, the one applied last first."""
        return self._items(stream_path(job, stream, "/acks"), "acknowledgements", AcknowledgementFacts)

    def bounds(self, job: str, stream: str) -> Iterator[PublishedBound]:
        """Return what was published, generation by generation, the newest first."""
        return self._items(stream_path(job, stream, "/bounds"), "bounds", PublishedBound)

    def adopt(
        self, job: str, stream: str, former: str, reason: str, *, dry_run: bool = False
    ) -> StreamAdopted:
        """Let a stream go on as another one of its job, ``former``. With ``dry_run`` nothing changes."""
        params = {"former": former, "reason": reason, **dry_run_params(dry_run=dry_run)}
        answer = self._send("POST", stream_path(job, stream, ":adopt"), params=params)
        return checked(StreamAdopted, answer.content)

    # -- deletion -------------------------------------------------------------------------------------------------

    def delete_stream(
        self, job: str, stream: str, reason: str, *, while_reporting: bool = False, dry_run: bool = False
    ) -> StreamDeleted:
        """Delete a stream with all of its data; return how many rows were stored of it. It cannot be undone.

        Args:
            job: name of the job.
            stream: name of the stream.
            reason: why, recorded in the event.
            while_reporting: delete it although its job still reports; it begins anew with the next report.
            dry_run: delete nothing, only answer what would be deleted.

        Raises:
            RequestRejectedError: when the job still reports (``stream-reports``).
            ChangedError: when somebody else changed it at the same time; then nothing is deleted.
        """
        where = stream_path(job, stream, "")
        params = {"reason": reason, "whileReporting": "true" if while_reporting else None}
        answer = self._send("DELETE", where, params={**params, **dry_run_params(dry_run=True)})
        if not dry_run:
            headers = {"If-Match": answer.headers.get("etag", "*")}
            answer = self._send("DELETE", where, params=params, headers=headers)
        return checked(StreamDeleted, answer.content)

    # -- rollouts ------------------------------------------------------------------------------------------------

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
        found = self._items(_within(job, stream, "/rollouts"), "rollouts", RolloutAnswer, query)
        return (row for row in found if job is None or row.job == job)

    def rollout(self, job: str, stream: str, rollout_id: int) -> RolloutDetail:
        """Return a rollout with its events."""
        return self._get(_rollout(job, stream, rollout_id), RolloutDetail)

    def approve(
        self, job: str, stream: str, rollout_id: int, reason: str, *, dry_run: bool = False
    ) -> RolloutAnswer:
        """Approve a rollout; it is published once no gate holds it. With ``dry_run`` nothing changes."""
        return self._act(
            _rollout(job, stream, rollout_id, ":approve"), reason, RolloutAnswer, dry_run=dry_run
        )

    def discard(
        self, job: str, stream: str, rollout_id: int, reason: str, *, dry_run: bool = False
    ) -> RolloutAnswer:
        """Discard a rollout that is not published yet. With ``dry_run`` nothing changes."""
        return self._act(
            _rollout(job, stream, rollout_id, ":discard"), reason, RolloutAnswer, dry_run=dry_run
        )

    def roll_back(
        self, job: str, stream: str, rollout_id: int, reason: str, *, dry_run: bool = False
    ) -> RolloutAnswer:
        """Publish again what was published before a rollout. With ``dry_run`` nothing changes."""
        return self._act(
            _rollout(job, stream, rollout_id, ":rollback"), reason, RolloutAnswer, dry_run=dry_run
        )

    def lift(
        self, job: str, stream: str, rollout_id: int, reason: str, *, dry_run: bool = False
    ) -> RolloutAnswer:
        """Lift the veto on a rollout that a person discarded or rolled back. With ``dry_run`` nothing changes."""
        return self._act(_rollout(job, stream, rollout_id, ":lift"), reason, RolloutAnswer, dry_run=dry_run)

    def pause(self, job: str, stream: str, reason: str, *, dry_run: bool = False) -> PolicyAnswer:
        """Start no new rollout; the one under way is still watched. With ``dry_run`` nothing changes."""
        return self._act(stream_path(job, stream, ":pause"), reason, PolicyAnswer, dry_run=dry_run)

    def resume(self, job: str, stream: str, reason: str, *, dry_run: bool = False) -> PolicyAnswer:
        """End a pause. With ``dry_run`` nothing changes."""
        return self._act(stream_path(job, stream, ":resume"), reason, PolicyAnswer, dry_run=dry_run)

    def events(
        self, job: str | None = None, stream: str | None = None, *, kind: str | None = None
    ) -> Iterator[Event]:
        """Return what changed, why and by whom, the newest first: of a stream, of a job, or of the whole fleet.

        Args:
            job: only of this job.
            stream: only of this stream of the job.
            kind: only of this kind, such as ``RolloutRolledBack``.
        """
        found = self._items(_within(job, stream, "/events"), "events", Event, {"kind": kind})
        return (row for row in found if job is None or row.job == job)

    # -- kill switches -------------------------------------------------------------------------------------------

    def pins(self) -> Iterator[PinSummary]:
        """Return the pins: the fleet's first, then by job and stream."""
        return self._items("/v1/pins", "pins", PinSummary)

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
        body = {"to": to, "reason": reason}
        params = {**pin_query(job, stream, fleet=fleet), **dry_run_params(dry_run)}
        try:
            answer = self._send("PUT", "/v1/pin", body=body, params=params)
        except ChangedError:
            # A kill switch replaces any other, and does not wait to read it.
            answer = self._send("PUT", "/v1/pin", body=body, params=params, headers={"If-Match": "*"})
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
        params = {**pin_query(job, stream, fleet=fleet), "reason": reason, **dry_run_params(dry_run)}
        answer = self._send("DELETE", "/v1/pin", params=params)
        return checked(PinAnswer, answer.content)

    # -- calls of jobs -------------------------------------------------------------------------------------------

    def send_report(self, report: Report) -> Receipt:
        """Report a batch; sending the same content again changes nothing."""
        where = stream_path(report.job, report.stream, "/reports")
        answer = self._send("POST", where, body=to_json_object(report), idempotent=True)
        return checked(Receipt, answer.content)

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> Receipt:
        """Acknowledge what a run of the job applied; sending the same content again changes nothing."""
        where = stream_path(job, stream, "/acks")
        answer = self._send("POST", where, body=to_json_object(acknowledgement), idempotent=True)
        return checked(Receipt, answer.content)

    def bound(self, job: str, stream: str) -> BoundAnswer:
        """Return the bound that the job should use, or why there is none."""
        return self._get(stream_path(job, stream, "/bound"), BoundAnswer)

    def watch(self, job: str, stream: str, *, wait_seconds: int = 50) -> Iterator[BoundAnswer]:
        """Yield the bound that the job should use, now and at each change, without end.

            >>> for answer in tidemark.watch("shop", "clicks"):
            ...     print(answer.generation, answer.bound_ms, answer.reason)

        The controller holds each answer back until the bound changes, so that a change arrives at once. Like every
        read it is retried while the controller is away; after the last attempt it raises, and a new watch may begin.

        Args:
            job: name of the job.
            stream: name of the stream.
            wait_seconds: how long one request waits; many proxies end a request after a minute.
        """
        etag: str | None = None
        while True:
            headers = {} if etag is None else {"If-None-Match": etag, "Prefer": f"wait={wait_seconds}"}
            answer = self._send(
                "GET", stream_path(job, stream, "/bound"), headers=headers, extra_seconds=wait_seconds
            )
            if answer.status_code != httpx.codes.NOT_MODIFIED:
                etag = answer.headers.get("etag")
                yield checked(BoundAnswer, answer.content)
            if etag is None or (headers and "preference-applied" not in answer.headers):
                self._sleep(_POLL_SECONDS)


def _rollout(job: str, stream: str, rollout_id: int, act: str = "") -> str:
    return stream_path(job, stream, f"/rollouts/{rollout_id}{act}")


def _within(job: str | None, stream: str | None, what: str) -> str:
    """Return the path of a list: the stream's own, or the fleet's when no stream is named, even if a job is."""
    if stream is not None and job is None:
        raise ValueError("a stream needs its job")
    return f"/v1{what}" if job is None or stream is None else stream_path(job, stream, what)
