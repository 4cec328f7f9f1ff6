"""``tidemark lookback``: how far back each batch run must read again, for a table with both times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import click
import numpy as np

from tidemark.controller.base.clock import utc_text
from tidemark.controller.lab.lookback.choose import Cells, LoadHistory, Reading, cheapest, reading, smallest
from tidemark.controller.lab.lookback.sources import TwoTimes, parts_of
from tidemark.controller.lab.progress import progress
from tidemark.controller.lab.traces.from_files import Columns
from tidemark.controller.lab.traces.from_files import Format as FileFormat
from tidemark.controller.lab.traces.messages import Unit
from tidemark.controller.tools.cli.options import confidence_of, duration_of
from tidemark.controller.tools.cli.run import Format, errors_in_one_line, write
from tidemark.controller.tools.cli.shape import fail_request
from tidemark.controller.tools.cli.show import percent, say
from tidemark.controller.tools.cli.show import table as show_table
from tidemark.models.base.confidence import DEFAULT_CONFIDENCE
from tidemark.models.base.duration import MICROSECONDS, format_about, format_duration
from tidemark.models.base.target import PPM, parse_target
from tidemark.models.base.text import plural
from tidemark.models.recommend.choice import lack_of_evidence, needed_rank, not_covered, percent_of

_SHOWN = 12
"""About how many look-backs the table shows."""
_TOLERATED = 100
"""A row may be loaded before its event by this part of a period: clocks differ, and it moves hardly any row."""
_SQLMESH = {5: "five_minute", 15: "quarter_hour", 30: "half_hour", 60: "hour", 1_440: "day"}
_UNITS = {"dbt": {60: "hour", 1_440: "day"}, "sqlmesh": _SQLMESH}
"""Units of fixed length that they run by, by their minutes."""
_CONFIGURATION = {
    "dbt": "# {kept}\nconfig:\n  incremental_strategy: microbatch\n  event_time: {event_time}\n  batch_size: {unit}\n"
    "  lookback: {dbt}",
    # A look-back of 0 is the default, and no value that SQLMesh takes.
    "sqlmesh": "-- {kept}\nkind INCREMENTAL_BY_TIME_RANGE (time_column {event_time}{sqlmesh}),\ninterval_unit {unit}",
}


class _Answer(NamedTuple):
    """``reason`` says why the look-back is not known, or else what it does not cover."""

    look_back: int | None
    look_back_of_this_table: int | None
    """What would have been enough for these rows; None when no look-back was that they can tell of."""
    readings: dict[str, Reading]
    """By a name of the periods that are read."""
    trend: str
    reason: str


def lookback(
    sources: Sequence[str],
    *,
    event_time: str,
    loaded_at: str,
    every: str,
    at: str,
    target: str,
    confidence: str,
    table: str | None,
    unit: Unit | None,
    file_format: FileFormat | None,
    skip_nulls: bool,
    tool: str | None,
    output: Format,
) -> None:
    """Show how far back each run must read again."""
    with errors_in_one_line():
        every_us, at_us = duration_of(every, "--every"), duration_of(at, "--at")
        target_ppm, confidence_ppm = parse_target(target), confidence_of(confidence)
        if every_us < MICROSECONDS["m"] or not 0 <= at_us < every_us:
            raise ValueError("--every must be at least a minute, and --at at least 0 and shorter than it")
        if event_time == loaded_at:
            raise ValueError(f"--event-time and --loaded-at are the same column, {loaded_at!r}")
        units = _UNITS.get(tool or "", {every_us // MICROSECONDS["m"]: ""})
        if every_us / MICROSECONDS["m"] not in units:
            raise ValueError(f"{tool} has no unit of {every!r}, only {', '.join(units.values())}")
        if tool is not None and output != "table":
            raise ValueError(f"--for {tool} goes without -o {output}")
        times = TwoTimes(Columns(event_time=event_time, arrival=loaded_at, unit=unit), every_us // _TOLERATED)
        cells = Cells(every_us, at_us)
        with progress() as progressed:
            for both in times.read(parts_of(sources, times.columns, file_format, table)):
                cells.add(*both)
                progressed("reading", times.rows)
        notes = _notes(times, target_ppm, skip_nulls=skip_nulls)
        history = LoadHistory.of(cells, target_ppm)
        if history.end - history.first < 2 or not history.total:
            raise ValueError(_too_few(cells, times, every))
        answer = _answer(history, target_ppm, confidence_ppm, every_us)
    back = answer.look_back
    if output != "table":
        asked = {"event_time": event_time, "loaded_at": loaded_at, "every_us": every_us, "at_us": at_us}
        asked |= {"target_ppm": target_ppm, "confidence_ppm": confidence_ppm}
        counted = {"rows": history.total, "periods": history.end - history.first}
        out = {"rows_before_first_load": history.before, "rows_of_newest_periods": history.newest}
        readings = {"readings": {name: asdict(found) for name, found in answer.readings.items()}}
        write(asked | answer._asdict() | readings | counted | out | {"notes": notes}, output)
    elif tool is None:
        _show(answer, history, notes, every_us, at_us)
    elif back is not None:
        kept = f"{_kept(answer.readings[_upto(back)])}: --target {target} --every {every} --at {at}"
        more = {"dbt": back, "sqlmesh": f", lookback {back - 1}" if back > 1 else ""}
        unit_name = units[every_us // MICROSECONDS["m"]]
        click.echo(_CONFIGURATION[tool].format(kept=kept, event_time=event_time, unit=unit_name, **more))
    if back is None:
        fail_request(f"the look-back is not known: {answer.reason}")


def _notes(times: TwoTimes, target_ppm: int, *, skip_nulls: bool) -> list[str]:
    """Return what to know of the rows.

    Raises:
        ValueError: when they tell nothing because of it.
    """
    nulls = [f"{name!r} is null in {plural(rows, 'row')}" for name, rows in times.nulls.items() if rows]
    if nulls and not skip_nulls:
        raise ValueError(f"column {' and '.join(nulls)}: --skip-nulls leaves such rows out")
    if not times.rows:
        raise ValueError("there are no rows with both times")
    notes = [f"left out: column {each}" for each in nulls]
    if times.early:
        by = format_about(1e6 * times.early_s / times.early)
        early = (
            f"{plural(times.early, 'row')}, {percent_of(times.early, times.rows)}: {times.columns.arrival!r} is before "
            f"{times.columns.event_time!r}, by {by} in the mean"
        )
        if times.early * PPM > times.rows * (PPM - target_ppm):
            raise ValueError(
                f"{early}; are the columns exchanged, or is one in another time zone? Periods are cut in UTC, by "
                "dbt and SQLMesh too: make it UTC in the table or in a view"
            )
        notes.append(f"note: {early}; they count as loaded at once")
    if times.only_days:
        notes.append(
            f"note: all of {times.columns.arrival!r} are midnights; if these are the days of loads, add 1"
        )
    zone = "has times without a zone; they were taken as UTC, as dbt and SQLMesh take them"
    return notes + [f"note: {name!r} {zone}" for name in times.without_zone]


def _too_few(cells: Cells, times: TwoTimes, every: str) -> str:
    event_time, loaded_at = times.columns.event_time, times.columns.arrival
    run, need, _ = cells.counts()
    loads, periods = int(np.ptp(run)) + 1, int(np.ptp(run - need)) + 1
    way_out = f"take rows of a longer time, or a shorter --every unless {event_time!r} is a date"
    if loads < periods / 2:
        way_out = f"a full refresh or a copy sets {loaded_at!r} anew: take one that has when rows first came"
    return (
        f"{plural(times.rows, 'row')} of {plural(periods, 'period')} of {every} by {event_time!r}, loaded in {loads} "
        f"by {loaded_at!r}: fewer than two began after the first load and have all their rows; {way_out}"
    )


def _answer(history: LoadHistory, target_ppm: int, confidence_ppm: int | None, every_us: int) -> _Answer:
    confidence, per_event = confidence_ppm and confidence_ppm / PPM, history.rows_per_event(target_ppm)
    likely = confidence or DEFAULT_CONFIDENCE
    needed = needed_rank(history.total, target_ppm, confidence, per_event)
    back = smallest(history, needed)
    of_table = smallest(history, needed_rank(history.total, target_ppm, None))
    about = next((each for each in (back, of_table) if each is not None), history.reach)
    reason = f"not even a look-back of {history.reach} keeps enough, and these rows tell of no longer one"
    if needed is None:
        reason = lack_of_evidence(history.total, per_event, target_ppm, likely)
    elif back is not None:
        reason = not_covered((history.end - history.first) * every_us, likely)
    last = min(about + 2, history.reach)
    shown = {_upto(age): range(age + 1) for age in sorted({*range(last, -1, -(last // _SHOWN + 1)), about})}
    sets: dict[str, Sequence[int]] = {}
    if back is not None and back > 1:
        sets = {"cheapest": (0, 1, back), "cheapest at target": cheapest(history, target_ppm, back)}
    readings = {name: reading(history, which, per_event, likely) for name, which in (shown | sets).items()}
    middle = (history.first + history.end) // 2
    halves = (history.between(history.first, middle), history.between(middle, history.end))
    trend = "not known, as half of the periods have no rows"
    if all(half.total for half in halves):
        # What has changed is no doubt about a half, so that each has its own events.
        sizes = [half.rows_per_event(target_ppm) for half in halves]
        older, newer = map(reading, halves, [range(about + 1)] * 2, sizes, [likely] * 2)
        change = "it gets worse" if (older.min_ppm or 0) > (newer.max_ppm or 0) else "no change beyond chance"
        change = "it gets better" if (newer.min_ppm or 0) > (older.max_ppm or 0) else change
        alone = [smallest(half, needed_rank(half.total, target_ppm, None)) for half in halves]
        trend = (
            f"{percent(older.kept_ppm)} of the older half of the periods, {percent(newer.kept_ppm)} of the newer one; "
            f"by themselves they would take {alone[0]} and {alone[1]}: {change}"
        )
    return _Answer(back, of_table, readings, trend, reason)


def _upto(age: int) -> str:
    return f"0 to {age}" if age else "0"


def _kept(found: Reading) -> str:
    ends = f"{percent(found.min_ppm)} to {percent(found.max_ppm)}"
    return f"keeps {percent(found.kept_ppm)} of the rows, {ends} of those to come"


def _show(answer: _Answer, history: LoadHistory, notes: list[str], every_us: int, at_us: int) -> None:
    first, end = (utc_text(period * every_us) for period in (history.first, history.end))
    newest = f"{plural(history.newest, 'row')} of the newest {plural(history.reach + 1, 'period')}"
    rows, periods = plural(history.total, "row"), plural(history.end - history.first, "period")
    start = f"runs start {format_duration(at_us)} after the end of one"
    span = f"{rows}, {periods} of {format_duration(every_us)} from {first} to {end}; {start}"
    before = f"left out: {plural(history.before, 'row')} of periods before the first load"
    for line in (*notes, before, f"left out: {newest}, as more are to come", span):
        say(line)
    shown = []
    for name, found in answer.readings.items():
        shares = map(percent, (found.kept_ppm, found.min_ppm, found.max_ppm, found.meanwhile_ppm))
        shown.append((name, *shares, f"{found.rows_a_run:,}", f"{found.reads_a_row:.2f}"))
    columns = ("periods read", "kept", "at least", "at most", "meanwhile", "rows a run", "reads a row")
    show_table(columns, shown, figures=True)
    back, of_table = answer.look_back, answer.look_back_of_this_table
    if back is not None:
        written = f"dbt lookback {back}, SQLMesh {max(back - 1, 0)}"
        say(f"look-back {back} {_kept(answer.readings[_upto(back)])}: {written}")
        for name in ("cheapest", "cheapest at target"):
            if name in answer.readings:
                say(f"{name}: periods {', '.join(map(str, answer.readings[name].periods))}")
        say(f"note: {answer.reason}")
    if of_table not in {None, back}:
        say(f"note: for these rows alone {of_table} would do (--confidence none)")
    say(f"trend: {answer.trend}")
