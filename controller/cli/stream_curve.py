"""The curve of a stream of a running controller, for ``tidemark curve JOB STREAM``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tidemark.controller.cli.curve_chart import Marks, chart
from tidemark.controller.cli.options import bounds_of
from tidemark.controller.cli.remote import open_client
from tidemark.controller.cli.show import as_json, bound, measured, moment, percent, say, table
from tidemark.models.base.granules import SPARK_TICK_US

if TYPE_CHECKING:
    from tidemark.controller.api.schemas import CurvePointAnswer


def show_stream_curve(
    job: str,
    stream: str,
    bounds: str | None,
    trace_options: Sequence[str | None],
    *,
    json: bool,
    plot: bool,
    url: str,
    token_file: Path | None,
) -> None:
    """Print completeness and latency of a stream by bound: at ``bounds``, or where the curve bends.

    ``plot`` draws the late rows by bound, too.
    """
    with open_client(url, token_file) as tidemark:
        if any(option is not None for option in trace_options):
            raise ValueError("--window, --slide, --session-gap, --latency-cap and --grace need a trace")
        bounds_ms = [] if bounds is None else [bound // 1_000 for bound in bounds_of(bounds, SPARK_TICK_US)]
        found = tidemark.curve(job, stream, bounds_ms)
        evidence = tidemark.status(job, stream).evidence
    if json:
        return as_json(found)
    rows = [
        (
            bound(point.bound_ms),
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
        for point in (found.points if bounds_ms else _that_say_something(found.points))
    ]
    basis = found.basis
    if rows:
        say(f"{job}/{stream}, batches of {moment(basis.from_us)} to {moment(basis.to_us)}")
    columns = (
        *("bound", "completeness", "at least", "late rows", "base - end", "wall - end", "windows"),
        "meets the SLO",
    )
    table(columns, rows, f"no rows of {job}/{stream} are known yet")
    if rows and plot:
        operating = found.operating
        marks = Marks(
            found.target_ppm,
            _microseconds(operating.bound_ms),
            "published" if operating.is_published else "in use",
        )
        points = [(point.bound_ms * 1_000, point.late) for point in found.points]
        for line in chart(points, found.points[0].rows, marks):
            typer.echo(line)
    needed = evidence.rows_needed
    if rows and needed is not None and evidence.rows < needed:
        say(f"not enough evidence: {evidence.rows:,} of {needed:,} rows, so no bound is certified")
    return None


def _microseconds(duration_ms: int | None) -> int | None:
    return None if duration_ms is None else duration_ms * 1_000


def _that_say_something(points: Sequence[CurvePointAnswer]) -> list[CurvePointAnswer]:
    """Return the points without those that admit no more rows than a smaller bound does."""
    return [*points[:1], *(point for before, point in pairwise(points) if point.late != before.late)]
