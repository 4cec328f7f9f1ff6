"""``tidemark savings``: what the fleet would save under its recommended bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.run import CommandAnswer, check_job
from tidemark.controller.tools.cli.show import (
    approval_command,
    duration,
    measured,
    percent,
    say,
    show_facts,
    table,
)
from tidemark.models.base.text import format_number, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemark.controller.server.schemas.savings import SavingsOfStream, SavingsTotals
    from tidemark.controller.tools.client.client import Client
    from tidemark.models.recommend.savings import Figures, Interval, Savings, Total

_HOUR_MS = 3_600_000
_DIGITS = 3
_UNKNOWN = "-"


def savings(tidemark: Client, job: str | None) -> CommandAnswer:
    """Show what the fleet would save, streams that lose rows first, then by waiting saved."""
    pages = list(tidemark.savings(job))
    streams, totals = [row for page in pages for row in page.streams], pages[0].totals
    if not streams:
        check_job(tidemark, job)

    def show() -> None:
        columns = ("stream", "bound", "latency", "waiting saved a day", "rows late a day", "state", "note")
        table(columns, map(_row, streams), "there are no streams yet: none has reported")
        if streams:
            _show_totals(totals)
        for row in streams if job is not None else ():
            for unknown in row.savings.unknown:
                say(f"{row.stream}: {unknown}")

    return CommandAnswer({"streams": streams, "totals": totals}, show)


def _row(row: SavingsOfStream) -> tuple[str, ...]:
    savings = row.savings
    return (
        f"{row.job}/{row.stream}",
        f"{duration(savings.bound_ms)} -> {duration(savings.recommended_bound_ms)}",
        _change(savings, lambda figures: figures.latency_ms, measured),
        _UNKNOWN if row.saved is None else _saved(row.saved.waiting_ms, _hours, saves=""),
        _change(savings, lambda figures: figures.late_rows, _count),
        _state(savings),
        _note(savings),
    )


def _change(row: Savings, pick: Callable[[Figures], Interval], text: Callable[[int], str]) -> str:
    now, then = (
        _UNKNOWN if figures is None else _interval(pick(figures), text)
        for figures in (row.now, row.recommended)
    )
    return _UNKNOWN if now == then == _UNKNOWN else f"{now} -> {then}"


def _state(row: Savings) -> str:
    if row.now is None or row.now.state_bytes.min is None:
        return _change(row, lambda figures: figures.state_rows, lambda rows: plural(rows, "row"))
    return _change(row, lambda figures: figures.state_bytes, _size)


def _note(row: Savings) -> str:
    parts = []
    if row.loses:
        target = "" if row.target_ppm is None else f", and the target is {percent(row.target_ppm)}"
        parts.append(f"loses rows: {percent(row.completeness_max_ppm)} are good{target}")
    parts.append(f"provisional: {row.reason}" if row.provisional else row.reason)
    if row.awaits_approval is not None:
        parts.append(approval_command(row.awaits_approval))
    return "; ".join(parts)


def _show_totals(totals: SavingsTotals) -> None:
    say("")
    without = totals.without_recommendation
    show_facts(
        {
            "streams": f"{totals.streams}: {totals.losing} losing rows, {without} without a recommended bound",
            "waiting a day": _sum(totals.waiting_ms, _hours, totals.streams),
            "rows late a day": _sum(totals.late_rows, _count, totals.streams),
            "rows of state": _sum(totals.state_rows, _count, totals.streams),
            "state": _sum(totals.state_bytes, _size, totals.streams),
        }
    )


def _sum(total: Total, text: Callable[[int], str], streams: int) -> str:
    if not total.streams:
        return "not known of any stream"
    now, then = (_interval(between, text) for between in (total.now, total.recommended))
    others = "" if total.streams == streams else ", not known of the others"
    of = f"{total.streams} of {plural(streams, 'stream')}{others}"
    return f"{now} -> {then}, {_saved(total.saved, text, saves='saves ')} ({of})"


def _saved(saved: Interval, text: Callable[[int], str], *, saves: str) -> str:
    """Return what is saved, or what it costs where that is below 0."""
    least, most = saved.min, saved.max
    if most is not None and most <= 0 and least != 0:
        cost = replace(saved, min=-most, max=None if least is None else -least)
        return f"costs {_interval(cost, text)}"
    if least is not None and least < 0:
        return f"costs at most {text(-least)}" + ("" if most is None else f", saves at most {text(most)}")
    return f"{saves}{_interval(saved, text)}"


def _interval(between: Interval, text: Callable[[int], str]) -> str:
    if between.min is None:
        return _UNKNOWN if between.max is None else f"at most {text(between.max)}"
    if between.max is None:
        return f"at least {text(between.min)}"
    least, most = text(between.min), text(between.max)
    return least if least == most else f"{least} to {most}"


def _hours(time_ms: int) -> str:
    return f"{format_number(time_ms / _HOUR_MS, _DIGITS)} h"


def _count(number: int) -> str:
    return f"{number:,}"


def _size(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(number) < 1_024:
            return f"{format_number(number, _DIGITS)} {unit}"
        number /= 1_024
    return f"{format_number(number, _DIGITS)} GiB"
