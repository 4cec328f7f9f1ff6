"""``tidemark curve``: what each bound admits and costs, for a trace or for a stream of a running controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.controller.tools.cli.options import bounds_of
from tidemark.controller.tools.cli.run import Format, open_client, write
from tidemark.controller.tools.cli.shape import fail_usage
from tidemark.controller.tools.cli.show import duration, measured, moment, percent, say, table
from tidemark.models.base.granules import SPARK_TICK_US

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.charts import CurvePointAnswer


def curve(
    trace: Path,
    stream: str | None,
    *,
    bounds: str | None,
    output: Format,
    url: str,
    token_file: Path | None,
    **of_trace: Any,
) -> None:
    """Show completeness and latency by bound, for a trace or a stream."""
    if stream is not None:
        show_stream_curve(str(trace), stream, bounds, of_trace, output=output, url=url, token_file=token_file)
        return
    from tidemark.controller.lab.curve.of_trace import show_trace_curve  # noqa: PLC0415 - a stream needs no scipy

    if not trace.is_file() and not trace.suffix:
        fail_usage(f"there is no trace {trace}; of a stream name both: tidemark curve {trace} STREAM")
    show_trace_curve(trace, bounds=bounds, output=output, **of_trace)


def show_stream_curve(
    job: str,
    stream: str,
    bounds: str | None,
    of_trace: Mapping[str, Any],
    *,
    output: Format,
    url: str,
    token_file: Path | None,
) -> None:
    """Print completeness and latency of a stream by bound: at ``bounds``, or where the curve bends."""
    with open_client(url, token_file) as tidemark:
        if any(of_trace[name] for name in ("window", "slide", "session_gap", "latency_cap", "grace")):
            raise ValueError("--window, --slide, --session-gap, --latency-cap and --grace need a trace")
        bounds_ms = (
            []
            if bounds is None
            else [bound_us // 1_000 for bound_us in bounds_of(bounds, "--bounds", SPARK_TICK_US)]
        )
        answer = tidemark.curve(job, stream, bounds_ms)
        evidence = tidemark.status(job, stream).evidence
    if output != "table":
        return write(answer, output)
    rows = [
        (
            duration(point.bound_ms),
            percent(point.completeness_ppm),
            percent(point.completeness_min_ppm),
            f"{point.late:,}",
            measured(point.latency_base_ms),
            measured(point.latency_wall_ms)
            if point.latency_at_least_ms is None
            else f"at least {measured(point.latency_at_least_ms)}",
            f"{point.windows_emitted:,}",
            {True: "yes", False: "no", None: "-"}[point.meets_all],
        )
        for point in (answer.points if bounds_ms else _that_say_something(answer.points))
    ]
    basis = answer.basis
    if rows:
        say(f"{job}/{stream}, batches of {moment(basis.from_us)} to {moment(basis.to_us)}")
    columns = (
        *("bound", "completeness", "at least", "late rows", "base - end", "wall - end", "windows"),
        "meets the SLO",
    )
    table(columns, rows, f"no rows of {job}/{stream} are known yet")
    needed = evidence.rows_needed
    if rows and needed is not None and evidence.rows < needed:
        say(f"not enough evidence: {evidence.rows:,} of {needed:,} rows, so no bound is certified")
    return None


def _that_say_something(points: Sequence[CurvePointAnswer]) -> list[CurvePointAnswer]:
    """Return the points without those that admit no more rows than a smaller bound does."""
    return [*points[:1], *(point for before, point in pairwise(points) if point.late != before.late)]
