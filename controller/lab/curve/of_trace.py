"""The curve of a trace, for ``tidemark curve TRACE``: each bound replayed, and the bound to choose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemark.controller.base.clock import system_clock
from tidemark.controller.lab.progress import progress
from tidemark.controller.tools.cli.options import bounds_of, confidence_of, duration_of, operator_of
from tidemark.controller.tools.cli.run import Format, errors_in_one_line, write
from tidemark.controller.tools.cli.show import say, table
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Operator
from tidemark.models.base.target import PPM, parse_target
from tidemark.models.base.text import plural
from tidemark.models.evidence.curve import (
    Curve,
    CurvePoint,
    NeedDistribution,
    Replay,
    batches_of_slots,
    replay_spark,
)
from tidemark.models.recommend.choice import BoundChoice, Latency, choose_bound, needed_rank, percent

if TYPE_CHECKING:
    from tidemark.controller.lab.traces.format import Trace

_LADDER = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
"""Shares of the rows whose needs are the candidate bounds by default, beside 0 and the need at the target."""


_NONE_JUDGED = (
    "no bound is chosen: every row came before a watermark could have moved, so any bound admits all of them; record "
    "the stream for longer"
)
_Corrected = Sequence[Sequence[tuple[int, CurvePoint]]]
"""For each bound, by each grace in microseconds, the point of bound + grace."""


def show_trace_curve(
    path: Path,
    *,
    window: str | None,
    slide: str | None,
    session_gap: str | None,
    trigger: str,
    bounds: str | None,
    grace: str | None,
    target: str,
    confidence: str,
    latency_cap: str | None,
    latency: Latency,
    output: Format,
) -> None:
    """Print completeness and latency of a trace under each bound, and the bound to choose."""
    with errors_in_one_line():
        if session_gap is not None and (window is not None or slide is not None):
            raise ValueError("--session-gap goes without --window and --slide")
        operator = operator_of(window or "10s", slide, session_gap)
        trigger_us = duration_of(trigger, "--trigger")
        target_ppm, confidence_ppm = parse_target(target), confidence_of(confidence)
        cap_us = None if latency_cap is None else duration_of(latency_cap, "--latency-cap")
        asked_us = None if bounds is None else bounds_of(bounds, "--bounds", SPARK_TICK_US)
        recorded, notes = _read(path)
        graces = [] if grace is None else bounds_of(grace, "--grace", SPARK_TICK_US)
        replay = _replay(recorded, operator, trigger_us)
        replayed = Curve.of_replay(replay, operator)
        points = [
            replayed.at(bound) for bound in asked_us or _ladder(replayed.needs, target_ppm, confidence_ppm)
        ]
        # Rows are judged by base - (bound + grace), the watermark under which a corrected window is final.
        corrected = [[(after, replayed.at(point.bound_us + after)) for after in graces] for point in points]
        choice = choose_bound(
            points, target_ppm, cap_us, latency=latency, confidence=confidence_ppm and confidence_ppm / PPM
        )
        if not replay.any_judged:
            choice = BoundChoice(None, (), _NONE_JUDGED)
    rows, partitions = plural(len(recorded), "row"), plural(len(recorded.partitions), "partition")
    how = f"{rows}, {partitions}; {operator}; trigger {format_duration(trigger_us)}"
    for note in notes:
        click.echo(note, err=output != "table")
    if output != "table":
        return write(_document(how, points, corrected, choice), output)
    say(how)
    _show(points, corrected, choice, latency)
    return None


def _ladder(needs: NeedDistribution, target_ppm: int, confidence_ppm: int | None) -> list[int]:
    """Return 0 and the needs at the ladder's shares and at the target, which include the smallest bound that fits."""
    rows = round(needs.weight)
    certified = needed_rank(rows, target_ppm, confidence_ppm and confidence_ppm / PPM)
    ranks = [certified, *(math.ceil(share * rows) for share in _LADDER)]
    values = [needs.value_at_rank(rank) for rank in ranks if rank is not None]
    return sorted({0, *(math.ceil(value) for value in values if value is not None and value > 0)})


def _read(path: Path) -> tuple[Trace, list[str]]:
    """Return the plausible rows of a trace, and what the user should know of the others."""
    from tidemark.controller.lab.traces.format import OpenTrace, PlausibleRows, join  # noqa: PLC0415 - pyarrow only where it is needed

    opened, plausible = OpenTrace(path), PlausibleRows(system_clock())
    parts, done = [], 0
    with progress(total=opened.rows) as progressed:
        for part in opened.batches():
            parts.append(plausible.of(part))
            done += len(part)
            progressed("reading", done)
    if not opened.rows:
        raise ValueError(f"{path}: the trace has no rows")
    plausible.reject_if_none(path)
    return join(iter(parts)), plausible.notes()


def _replay(trace: Trace, operator: Operator, trigger_us: int) -> Replay:
    batch, wall_us = batches_of_slots(trace.event_time_us, trace.arrival_time_us, trigger_us)
    return replay_spark(trace.event_time_us, batch, wall_us, operator)


def _show(points: Sequence[CurvePoint], corrected: _Corrected, choice: BoundChoice, latency: Latency) -> None:
    columns = ("bound", "completeness", "late rows", "base - end", "wall - end", "windows")
    table(columns, map(_cells, points), figures=True)
    say("Latencies are means over windows; at least: too many windows are still open.")
    if corrected[0]:
        rows = (
            (
                format_duration(point.bound_us),
                *(f"{percent(later)} ({later.late})" for _, later in graces),
            )
            for point, graces in zip(points, corrected, strict=True)
        )
        table(("bound", *(f"+ {format_duration(after)}" for after, _ in corrected[0])), rows, figures=True)
        say("Completeness, and rows still late, of windows that are corrected for that much longer.")
    say(f"chosen ({latency} latency): {choice.reason}" if choice.point else choice.reason)
    for rejection in choice.rejections:
        say(f"  not {format_duration(rejection.bound_us)}: {rejection.detail}")


def _cells(point: CurvePoint) -> tuple[str, ...]:
    return (
        format_duration(point.bound_us),
        percent(point),
        str(point.late),
        "-" if point.latency_base_us is None else format_about(point.latency_base_us),
        "-" if point.latency_wall is None else point.latency_wall.text(),
        str(point.windows_emitted),
    )


def _document(
    how: str, points: Sequence[CurvePoint], corrected: _Corrected, choice: BoundChoice
) -> dict[str, Any]:
    """Return the result for JSON: integers with their unit in the name, and no float."""
    return {
        "replayed": how,
        "points": [
            {
                "bound_us": point.bound_us,
                "completeness_ppm": _completeness_ppm(point),
                "rows": point.rows,
                "late": point.late,
                "latency_base_us": _whole(point.latency_base_us),
                "latency_wall_us": _whole(
                    None if point.latency_wall is None else point.latency_wall.measured_us
                ),
                "latency_at_least_us": _whole(
                    point.latency_wall.mean_us if point.latency_wall and point.latency_wall.censored else None
                ),
                "windows_emitted": point.windows_emitted,
                "corrected": [
                    {"grace_us": after, "completeness_ppm": _completeness_ppm(later), "late": later.late}
                    for after, later in graces
                ],
            }
            for point, graces in zip(points, corrected, strict=True)
        ],
        "chosen_bound_us": choice.point.bound_us if choice.point else None,
        "reason": choice.reason,
        "rejections": [asdict(rejection) for rejection in choice.rejections],
    }


def _completeness_ppm(point: CurvePoint) -> int | None:
    return (point.rows - point.late) * PPM // point.rows if point.rows else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
