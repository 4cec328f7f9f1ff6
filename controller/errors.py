"""All errors that a caller can get, each with its HTTP status and its stable problem type.

``api.problems`` renders them as RFC 9457 problem documents. ``type`` names the kind of problem for programs and never
changes; ``detail`` tells people what was wrong this time, with the offending value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

TYPE_PREFIX = "urn:tidemark:problem:"
"""Problem types are names, not addresses: there is no page behind them that could move."""


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

    @property
    def type(self) -> str:
        """The problem type as a URI."""
        return TYPE_PREFIX + self.kind


class MalformedBodyError(TidemarkError):
    """The body is not JSON, or not encoded as its Content-Encoding says."""

    status = 400
    kind = "malformed-body"
    title = "The body cannot be read"


class JobNotFoundError(TidemarkError):
    """No stream of the job is known."""

    status = 404
    kind = "job-not-found"
    title = "Unknown job"


class ReportNotFoundError(TidemarkError):
    """The batch was not reported, or its report is deleted by now."""

    status = 404
    kind = "report-not-found"
    title = "Unknown report"


class UnauthenticatedError(TidemarkError):
    """The request has no token, or no valid one."""

    status = 401
    kind = "unauthenticated"
    title = "A token is needed"


class ForbiddenError(TidemarkError):
    """The caller may not do it. It is raised before any look-up, so it does not reveal what exists."""

    status = 403
    kind = "forbidden"
    title = "Not allowed"


class StreamNotFoundError(TidemarkError):
    """Nothing is known of the stream."""

    status = 404
    kind = "stream-not-found"
    title = "Unknown stream"


class SloNotSetError(TidemarkError):
    """The stream has no SLO."""

    status = 404
    kind = "slo-not-set"
    title = "No SLO is set"


class TokenNotFoundError(TidemarkError):
    """There is no token with this number."""

    status = 404
    kind = "token-not-found"
    title = "Unknown token"


class PinNotSetError(TidemarkError):
    """There is no pin on exactly this scope; a wider one may be in force."""

    status = 404
    kind = "pin-not-set"
    title = "No pin is set"


class LiveRefusedError(TidemarkError):
    """The policy sets Live, but the job's ceiling is missing or too low."""

    status = 409
    kind = "live-refused"
    title = "The job cannot run in Live"


class NotAcceptableError(TidemarkError):
    """The caller accepts none of the types of the answer."""

    status = 406
    kind = "not-acceptable"
    title = "No type of answer is acceptable"


class TokenConflictError(TidemarkError):
    """The token cannot be made beside the existing ones."""

    status = 409
    kind = "token-conflict"
    title = "The token cannot be made"


class RolloutNotFoundError(TidemarkError):
    """The stream has no such rollout."""

    status = 404
    kind = "rollout-not-found"
    title = "Unknown rollout"


class RolloutStateError(TidemarkError):
    """The rollout is in a state that does not allow the action."""

    status = 409
    kind = "rollout-state"
    title = "The rollout is in another state"


class ReportConflictError(TidemarkError):
    """The batch was reported before with other content."""

    status = 409
    kind = "report-conflict"
    title = "The batch was reported before with other content"


class PreconditionFailedError(TidemarkError):
    """The resource is not in the state that If-Match names."""

    status = 412
    kind = "precondition-failed"
    title = "The resource has changed"


class PreconditionRequiredError(TidemarkError):
    """The resource exists: the request has to name the version that it replaces."""

    status = 428
    kind = "precondition-required"
    title = "If-Match is needed"


class BodyTooLargeError(TidemarkError):
    """The body is larger than the controller reads."""

    status = 413
    kind = "body-too-large"
    title = "The body is too large"


class UnsupportedMediaTypeError(TidemarkError):
    """The controller does not read the body's Content-Type or Content-Encoding."""

    status = 415
    kind = "unsupported-media-type"
    title = "The body's type is not supported"


class InvalidBodyError(TidemarkError):
    """The body is JSON but does not match the schema; nothing is stored."""

    status = 422
    kind = "invalid-body"
    title = "The body is not valid"


class TooManyStreamsError(TidemarkError):
    """The store takes no more streams."""

    status = 422
    kind = "too-many-streams"
    title = "Too many streams"


class TooManyPartitionsError(TidemarkError):
    """The stream takes no more partitions."""

    status = 422
    kind = "too-many-partitions"
    title = "Too many partitions"


class InvalidParameterError(TidemarkError):
    """A path or query parameter is not valid."""

    status = 422
    kind = "invalid-parameter"
    title = "A parameter is not valid"


class ReportTooOldError(TidemarkError):
    """The batch is so old that it is not known any more whether it was reported before."""

    status = 422
    kind = "report-too-old"
    title = "The batch is too old"


class UnknownSchemaVersionError(TidemarkError):
    """This release does not read the body's schema version.

    Args:
        known: the versions that it reads.
    """

    status = 422
    kind = "unknown-schema-version"
    title = "Unknown schema version"

    def __init__(self, detail: str, *, known: tuple[int, ...], errors: tuple[ErrorItem, ...]) -> None:
        super().__init__(detail, errors=errors)
        self.known = known


class TooManyRequestsError(TidemarkError):
    """The caller sends more requests than allowed; nothing was done."""

    status = 429
    kind = "too-many-requests"
    title = "Too many requests"


class TooManyPollsError(TidemarkError):
    """No more requests can wait for a new bound."""

    status = 503
    kind = "too-many-polls"
    title = "Too many requests wait"


class LeaseLostError(TidemarkError):
    """Another process decides the stream now; nothing was written."""

    status = 503
    kind = "lease-lost"
    title = "Another process decides the stream"


class NotAliveError(TidemarkError):
    """The decision loop makes no progress."""

    status = 503
    kind = "not-alive"
    title = "The decision loop makes no progress"


class NotReadyError(TidemarkError):
    """The store cannot be reached, or its schema is not this release's."""

    status = 503
    kind = "not-ready"
    title = "The service is not ready"


class StoreUnavailableError(TidemarkError):
    """The store did not answer; the request may be sent again."""

    status = 503
    kind = "store-unavailable"
    title = "The store does not answer"


class StoreUnusableError(TidemarkError):
    """The database cannot be opened; reported at the start, on the command line."""

    status = 503
    kind = "store-unusable"
    title = "The database cannot be used"
