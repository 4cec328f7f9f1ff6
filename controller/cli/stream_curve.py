"""The curve of a stream of a running controller, for ``tidemark curve JOB STREAM``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from tidemark.controller.cli.remote import asking
from tidemark.controller.cli.show import as_json, bound, duration, moment, percent, table

__all__ = ["show_stream_curve"]


def show_stream_curve(
    job: str, stream: str, bounds_ms: Sequence[int], *, json: bool, url: str, token_file: Path | None
) -> None:
    """Print completeness and latency of a stream by bound, at ``bounds_ms`` or where the curve bends."""
    with asking(url, token_file) as tidemark:
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
        typer.echo(f"{job}/{stream}, batches of {moment(basis.from_us)} to {moment(basis.to_us)}")
    columns = ("bound", "completeness", "late rows", "base - end", "wall - end", "windows")
    return table(columns, rows, f"nothing is known of the rows of {job}/{stream} yet")
