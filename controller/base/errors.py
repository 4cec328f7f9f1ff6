"""All errors that a caller can get, each with its HTTP status and its stable problem type.

``server.http.problems`` renders them as RFC 9457 problem documents. ``type`` names the kind of problem for
programs and never changes; ``detail`` tells people what was wrong this time, with the offending value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

TYPE_PREFIX = "urn:tidemark:problem:"
"""Problem types are names, not addresses: there is no page behind them that could move."""


MAX_ERRORS = 20
"""How many errors of a body are listed: a wrong client makes the same one thousands of times."""


@dataclass(frozen=True, slots=True)
class ErrorItem:
    """One thing that is wrong with a request."""

    pointer: str
    """JSON pointer into the body (RFC 6901; empty for the whole body), or the name of a parameter."""
    detail: str
    """What is wrong there."""


class TidemarkError(Exception):
    """An error that a caller gets.

    Args:
        detail: what was wrong this time, as a sentence.
        errors: the parts of the request that are wrong.
        headers: HTTP headers of the answer.
    """

    status: ClassVar[int] = 500
    """HTTP status."""
    kind: ClassVar[str] = "internal"
    """Stable name of the problem type, without its prefix."""
    title: ClassVar[str] = "Internal error"
    """The problem type in a few words, the same each time."""

    def __init__(
        self, detail: str, *, errors: tuple[ErrorItem, ...] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})

    @classmethod
    def at(cls, pointer: str, reason: str) -> Self:
        """Return the error of one part of the request."""
        return cls(f"{pointer}: {reason}", errors=(ErrorItem(pointer, reason),))

    def __init_subclass__(cls, *, status: int, kind: str, title: str) -> None:
        """Set what all errors of the class have in common."""
        super().__init_subclass__()
        cls.status, cls.kind, cls.title = status, kind, title

    @property
    def type(self) -> str:
        """The problem type as a URI."""
        return TYPE_PREFIX + self.kind


class MalformedBodyError(TidemarkError, status=400, kind="malformed-body", title="The body cannot be read"):
    """The body is not JSON, or not encoded as its Content-Encoding says."""


class JobNotFoundError(TidemarkError, status=404, kind="job-not-found", title="Unknown job"):
    """No stream of the job is known."""


class UnauthenticatedError(TidemarkError, status=401, kind="unauthenticated", title="A token is needed"):
    """The request has no token, or no valid one."""


class ForbiddenError(TidemarkError, status=403, kind="forbidden", title="Not allowed"):
    """The caller may not do it. It is raised before any look-up, so it does not reveal what exists."""


class StreamNotFoundError(TidemarkError, status=404, kind="stream-not-found", title="Unknown stream"):
    """Nothing is known of the stream."""


class SloNotSetError(TidemarkError, status=404, kind="slo-not-set", title="No SLO is set"):
    """The stream has no SLO."""


class PolicyNotSetError(TidemarkError, status=404, kind="policy-not-set", title="No policy is set"):
    """The stream has the default policy, which nobody set."""


class TokenNotFoundError(TidemarkError, status=404, kind="token-not-found", title="Unknown token"):
    """There is no token with this number."""


class PinNotSetError(TidemarkError, status=404, kind="pin-not-set", title="No pin is set"):
    """There is no pin on exactly this scope; a wider one may be in force."""


class JoinNotFoundError(TidemarkError, status=404, kind="join-not-found", title="Unknown join"):
    """The job has no such join."""


class JoinRefusedError(TidemarkError, status=409, kind="join-refused", title="The streams cannot be joined"):
    """A stream has no SLO, runs in Live, or is a side of another join."""


class StreamJoinedError(
    TidemarkError, status=409, kind="stream-joined", title="The stream is a side of a join"
):
    """The join needs the stream, or its SLO."""


class LiveRefusedError(TidemarkError, status=409, kind="live-refused", title="The job cannot run in Live"):
    """The policy sets Live, but the job's ceiling is missing or too low."""


class TokenConflictError(TidemarkError, status=409, kind="token-conflict", title="The token cannot be made"):
    """The token cannot be made beside the existing ones."""


class RolloutNotFoundError(TidemarkError, status=404, kind="rollout-not-found", title="Unknown rollout"):
    """The stream has no such rollout."""


class RolloutStateError(
    TidemarkError, status=409, kind="rollout-state", title="The rollout is in another state"
):
    """The rollout is in a state that does not allow the action."""


class StreamReportsError(
    TidemarkError, status=409, kind="stream-reports", title="The stream's job still reports"
):
    """The stream would begin anew as soon as it is deleted, because its job still reports."""


class ReportConflictError(
    TidemarkError,
    status=409,
    kind="report-conflict",
    title="The batch was reported before with other content",
):
    """The batch was reported before with other content."""


class PreconditionFailedError(
    TidemarkError, status=412, kind="precondition-failed", title="The resource has changed"
):
    """The resource is not in the state that If-Match names."""


class PreconditionRequiredError(
    TidemarkError, status=428, kind="precondition-required", title="If-Match is needed"
):
    """The resource exists: the request has to name the version that it replaces."""


class RequestTooSlowError(
    TidemarkError, status=408, kind="request-too-slow", title="The request comes too slowly"
):
    """The body did not arrive in time."""


class BodyTooLargeError(TidemarkError, status=413, kind="body-too-large", title="The body is too large"):
    """The body is larger than the controller reads."""


class UnsupportedMediaTypeError(
    TidemarkError, status=415, kind="unsupported-media-type", title="The body's type is not supported"
):
    """The controller does not read the body's Content-Type or Content-Encoding."""


class InvalidBodyError(TidemarkError, status=422, kind="invalid-body", title="The body is not valid"):
    """The body is JSON but does not match the schema; nothing is stored."""


class TooManyPairsError(
    TidemarkError, status=422, kind="too-many-pairs", title="More than can be counted exactly"
):
    """With this report the stream would count more (row, window) pairs than are exact."""


class InvalidParameterError(
    TidemarkError, status=422, kind="invalid-parameter", title="A parameter is not valid"
):
    """A path or query parameter is not valid."""


class ReportTooOldError(TidemarkError, status=422, kind="report-too-old", title="The batch is too old"):
    """The batch is so old that it is not known any more whether it was reported before."""


class UnknownSchemaVersionError(
    TidemarkError, status=422, kind="unknown-schema-version", title="Unknown schema version"
):
    """This release does not read the body's schema version.

    Args:
        known: the versions that it reads.
    """

    def __init__(self, detail: str, *, known: tuple[int, ...], errors: tuple[ErrorItem, ...]) -> None:
        super().__init__(detail, errors=errors)
        self.known = known


class TooManyRequestsError(TidemarkError, status=429, kind="too-many-requests", title="Too many requests"):
    """The caller sends more requests than allowed; nothing was done."""


class LimitReachedError(TidemarkError, status=429, kind="limit-reached", title="A limit is reached"):
    """A limit that all share, or the share of one, is full; nothing was done, and the same may be sent later."""

    def __init__(self, detail: str, *, errors: tuple[ErrorItem, ...] = ()) -> None:
        super().__init__(detail, errors=errors, headers={"Retry-After": "5"})


class LeaseLostError(
    TidemarkError, status=503, kind="lease-lost", title="Another process decides the stream"
):
    """Another process decides the stream now; nothing was written."""


class NotAliveError(TidemarkError, status=503, kind="not-alive", title="The decision loop makes no progress"):
    """The decision loop makes no progress."""


class NotReadyError(TidemarkError, status=503, kind="not-ready", title="The service is not ready"):
    """The store cannot be reached, or its schema is not this release's."""


class StreamBusyError(TidemarkError, status=503, kind="stream-busy", title="The stream is being computed"):
    """What is known of the stream takes long to compute; the request may be sent again."""


class StoreUnavailableError(
    TidemarkError, status=503, kind="store-unavailable", title="The store does not answer"
):
    """The store did not answer; the request may be sent again."""


class IssuerUnavailableError(
    TidemarkError, status=503, kind="issuer-unavailable", title="The issuer of the token does not answer"
):
    """The keys of the token's issuer cannot be read, so that nothing is known of the token; send it again."""


class StoreUnusableError(
    TidemarkError, status=503, kind="store-unusable", title="The database cannot be used"
):
    """The database cannot be opened; reported at the start, on the command line."""
