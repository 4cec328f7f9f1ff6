"""``tidemark joint``: bounds for all streams of a query, such as the sides of a join, by one SLO."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidemark.controller.api.paths import stream_path
from tidemark.controller.cli.options import milliseconds_of, share_of
from tidemark.controller.cli.remote import Call, JobArgument, StreamArgument, calls_controller
from tidemark.controller.cli.show import as_json, bound, duration, moment, say, table
from tidemark.models.plural import plural

_Target = Annotated[
    str, typer.Option("--target", help="Share of the joined pairs to come out, such as 0.99.")
]
_Confidence = Annotated[
    str | None,
    typer.Option("--confidence", help="Confidence with which it must be certified. Default: 0.95."),
]
_Horizon = Annotated[
    str | None,
    typer.Option("--horizon", help="How far back to count, such as '6 h', at most a day. Default: 1 h."),
]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("joint")
    @calls_controller
    def joint(
        job: JobArgument,
        stream: StreamArgument,
        target: _Target,
        confidence: _Confidence = None,
        horizon: _Horizon = None,
        *,
        call: Call,
    ) -> None:
        """Show bounds for all streams of a stream's query together, by one SLO on its joined output.

        Nothing is published: write the bounds into the job, or give each stream its bound by the policy's --min-bound
        and --max-bound.
        """
        with call.open() as tidemark:
            asked = {
                "target_ppm": share_of(target, "--target"),
                "confidence_ppm": None if confidence is None else share_of(confidence, "--confidence"),
                "horizon_ms": None if horizon is None else milliseconds_of(horizon, "--horizon"),
            }
            params = {name: value for name, value in asked.items() if value is not None}
            found = tidemark.request("GET", stream_path(job, stream, "/joint-bounds"), params=params)
        if call.json:
            return as_json(found)
        if found["batches"]:
            seen = f"{moment(found['from_us'])} to {moment(found['to_us'])}"
            say(f"query {found['query_id']}, {plural(found['batches'], 'batch', 'batches')} of {seen}")
        table(("stream", "bound", "rows", "late", "why"), map(_row, found["sides"]), "")
        if found["common_bound_ms"] is not None:
            say(f"one bound for all would be {duration(found['common_bound_ms'])}")
        return None


def _row(side: dict[str, Any]) -> tuple[str, ...]:
    late = "-" if side["late"] is None else f"{side['late']:,}"
    return side["stream"], bound(side["bound_ms"]), f"{side['rows']:,}", late, side["reason"]
