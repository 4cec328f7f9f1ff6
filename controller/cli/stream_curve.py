"""The curve of a stream of a running controller, for ``tidemark curve JOB STREAM``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidemark.controller.cli.options import bounds_of
from tidemark.controller.cli.remote import open_client
from tidemark.controller.cli.show import as_json, bound, duration, moment, percent, say, table
from tidemark.models.granules import SPARK_TICK_US


def show_stream_curve(
    job: str,
    stream: str,
    bounds: str | None,
    trace_options: Sequence[str | None],
    *,
    json: bool,
    url: str,
    token_file: Path | None,
) -> None:
    """Print completeness and latency of a stream by bound: at ``bounds``, or where the curve bends."""
    with open_client(url, token_file) as tidemark:
        if any(option is not None for option in trace_options):
            raise ValueError("--window, --slide, --session-gap, --latency-cap and --grace need a trace")
        bounds_ms = [] if bounds is None else [bound // 1_000 for bound in bounds_of(bounds, SPARK_TICK_US)]
        found = tidemark.curve(job, stream, bounds_ms)
    if json:
        return as_json(found)
    rows = [
        (
            bound(point.bound_ms),
            percent(point.completeness_ppm),
            f"{point.late:,}",
            duration(point.latency_base_ms),
            duration(point.latency_wall_ms)
            if point.latency_at_least_ms is None
            else f"at least {duration(point.latency_at_least_ms)}",
            f"{point.windows_emitted:,}",
        )
        for point in found.points
    ]
    basis = found.basis
    if rows:
        say(f"{job}/{stream}, batches of {moment(basis.from_us)} to {moment(basis.to_us)}")
    columns = ("bound", "completeness", "late rows", "base - end", "wall - end", "windows")
    return table(columns, rows, f"no rows of {job}/{stream} are known yet")
