"""Examples of problem documents."""

from __future__ import annotations

from typing import Any

from tidemark.controller.api.examples.common import QUERY, Example


def _problem(status: int, kind: str, title: str, detail: str, **more: Any) -> Example:
    return {
        "type": f"urn:tidemark:problem:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        **more,
    }


PROBLEM_EXAMPLES: dict[int, Example] = {
    400: _problem(
        400, "malformed-body", "The body cannot be read", "Invalid JSON: EOF while parsing an object"
    ),
    401: _problem(
        401,
        "unauthenticated",
        "A token is needed",
        "the token is not valid: unknown here, expired or revoked",
    ),
    403: _problem(403, "forbidden", "Not allowed", "this job is out of reach of 'shop-viewer'"),
    404: _problem(
        404, "stream-not-found", "Unknown stream", "nothing is known of stream 'clicks' of job 'orders'"
    ),
    406: _problem(
        406,
        "not-acceptable",
        "No type of answer is acceptable",
        "the answer is application/json, and Accept is 'text/csv'",
    ),
    409: _problem(
        409,
        "report-conflict",
        "The batch was reported before with other content",
        f"batch 17 of query {QUERY} was reported before with other content; the first report stays",
    ),
    412: _problem(
        412,
        "precondition-failed",
        "The resource has changed",
        'If-Match is "2-7d793037a0760186", but the store has generation 3',
    ),
    408: _problem(
        408, "request-too-slow", "The request comes too slowly", "the body did not arrive within 30 seconds"
    ),
    413: _problem(
        413, "body-too-large", "The body is too large", "the body is larger than the 8,388,608 bytes read"
    ),
    415: _problem(
        415,
        "unsupported-media-type",
        "The body's type is not supported",
        "the body must have Content-Type: application/json in UTF-8, not 'text/plain'",
    ),
    422: _problem(
        422,
        "invalid-body",
        "The body is not valid",
        "/rows: Input should be a valid integer",
        errors=[{"pointer": "/rows", "detail": "Input should be a valid integer"}],
    ),
    428: _problem(
        428,
        "precondition-required",
        "If-Match is needed",
        'this replaces generation 3: read it, and send If-Match: "3-5d41402abc4b2a76" to replace it',
    ),
    429: _problem(
        429,
        "too-many-requests",
        "Too many requests",
        "more than 100 requests a second; wait before the next",
    ),
    503: _problem(
        503, "store-unavailable", "The store does not answer", "the store did not answer; send it again"
    ),
}
"""By status."""

_NO_CEILING = (
    "the job's call has no ceiling=: give it one (on a new checkpoint), start the job and set mode Live then"
)

KIND_EXAMPLES: dict[str, Example] = {
    "live-refused": _problem(
        409,
        "live-refused",
        "The job cannot run in Live",
        f"/mode: {_NO_CEILING}",
        errors=[{"pointer": "/mode", "detail": _NO_CEILING}],
    ),
    "join-not-found": _problem(
        404, "join-not-found", "Unknown join", "job 'orders' has no join 'attribution'; PUT one here"
    ),
    "join-refused": _problem(
        409,
        "join-refused",
        "The streams cannot be joined",
        "stream 'views' is a side of join 'sessions' already, and one output decides about its bound",
    ),
    "stream-joined": _problem(
        409,
        "stream-joined",
        "The stream is a side of a join",
        "the stream is a side of join 'attribution' of job 'orders'; delete that join first",
    ),
    "job-not-found": _problem(404, "job-not-found", "Unknown job", "nothing is known of job 'orders'"),
    "report-not-found": _problem(
        404,
        "report-not-found",
        "Unknown report",
        f"no report of batch 17 of query '{QUERY}' is kept for stream 'clicks' of job 'orders'",
    ),
    "slo-not-set": _problem(
        404, "slo-not-set", "No SLO is set", "the stream has no SLO that could be deleted"
    ),
    "policy-not-set": _problem(
        404,
        "policy-not-set",
        "No policy is set",
        "the stream has the default policy, which cannot be deleted",
    ),
    "stream-reports": _problem(
        409,
        "stream-reports",
        "The stream's job still reports",
        "the job of stream 'clicks' of job 'orders' still reports: it was last seen 12 s ago. Stop it first, or send "
        "whileReporting=true: then the stream begins anew with its next report",
    ),
    "token-conflict": _problem(
        409,
        "token-conflict",
        "The token cannot be made",
        "two tokens of the name 'orders-job' are valid already; revoke one of them first",
    ),
    "token-not-found": _problem(
        404, "token-not-found", "Unknown token", "there is no token 7; GET /v1/tokens lists those there are"
    ),
    "rollout-not-found": _problem(
        404,
        "rollout-not-found",
        "Unknown rollout",
        "the stream has no rollout 99; GET .../rollouts lists those there are",
    ),
    "rollout-state": _problem(
        409,
        "rollout-state",
        "The rollout is in another state",
        "rollout 12 is verified, so it cannot be approved; it can be rolled back",
    ),
    "pin-not-set": _problem(
        404,
        "pin-not-set",
        "No pin is set",
        "there is no pin on job 'orders'; GET /v1/pins lists those there are",
    ),
}
"""By kind, where a route's problem is not the usual one of its status."""
