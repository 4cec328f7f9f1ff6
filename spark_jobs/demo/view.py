"""What the demonstration shows: a progress bar and a live table, and the two runs side by side at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.text import plural
from tidemark.spark_jobs.demo.outcome import Outcome

_SLOWEST = 3


class View:
    """The live part. On a terminal it is redrawn; elsewhere a line is printed for every tenth of the way.

    Args:
        console: where to draw.
        total: batches of the whole demonstration.
    """

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task: TaskID = self._progress.add_task("starting", total=total)
        self._total = total
        self._shown = -1
        self._live = (
            Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End drawing; what was drawn goes."""
        if self._live is not None:
            self._live.stop()

    def show(
        self,
        *,
        doing: str,
        batches: int,
        status: Mapping[str, Any],
        partitions: Mapping[str, Any],
        state_rows: int,
    ) -> None:
        """Draw the state of things."""
        self._progress.update(self._task, completed=batches, description=doing)
        if self._live is not None:
            self._live.update(Group(self._progress, _table(status, partitions, state_rows)))
        elif batches * 10 // self._total > self._shown:
            self._shown = batches * 10 // self._total
            self._console.print(
                f"{doing}: batch {batches} of {self._total}, completeness {_completeness(status)}"
            )


def _table(status: Mapping[str, Any], partitions: Mapping[str, Any], state_rows: int) -> RenderableType:
    table = Table(show_header=False, box=None, padding=(0, 2))
    recommended = (status.get("recommended") or {}).get("bound_ms")
    applied = (status.get("applied") or {}).get("bound_ms")
    effective = status.get("effective_bound_ms")
    evidence = status.get("evidence") or {}
    table.add_row("bound applied", _ms(applied))
    table.add_row("bound effective", _ms(effective))
    table.add_row(
        "bound recommended", _ms(recommended) if recommended is not None else "not enough evidence yet"
    )
    table.add_row("completeness so far", _completeness(status))
    table.add_row(
        "evidence",
        f"{plural(evidence.get('rows', 0), 'row')} in {plural(evidence.get('batches', 0), 'batch', 'batches')}",
    )
    table.add_row("state", plural(state_rows, "row"))
    every = partitions.get("partitions", [])
    slowest = sorted(every, key=lambda part: -(part.get("need_ms") or 0))[:_SLOWEST]
    found = ", ".join(f"{part['partition']} needs {_ms(part.get('need_ms'))}" for part in slowest)
    table.add_row(f"partitions ({len(every)})", found or "none yet")
    return table


def comparison(columns: Mapping[str, Outcome]) -> Table:
    """Return outcomes side by side, by their labels; those without a state were replayed and not run."""
    table = Table(title="two guesses, Tidemark and its Live mode, against the truth", title_justify="left")
    table.add_column("")
    for label in columns:
        table.add_column(label, justify="right")
    runs = list(columns.values())
    rows = {
        "how": ["replayed" if run.state_rows is None else "on Spark" for run in runs],
        "bound": ["moves" if run.bound_ms is None else _ms(run.bound_ms) for run in runs],
        "completeness": ["unknown" if run.completeness is None else _percent(run) for run in runs],
        "rows lost": [f"{run.lost:,} of {run.rows:,}" for run in runs],
        "mean latency": [
            "unknown" if run.latency_us is None else format_about(run.latency_us) for run in runs
        ],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _percent(run: Outcome) -> str:
    text = f"{100 * (run.rows - run.lost) / run.rows:.2f}"
    return "99.99 %" if run.lost and text == "100.00" else f"{text} %"


def _ms(value: int | None) -> str:
    return "unknown" if value is None else format_duration(value * 1_000)


def _completeness(status: Mapping[str, Any]) -> str:
    found = status.get("completeness") or {}
    rows = found.get("rows") or 0
    if not rows:
        return "unknown"
    lowest, highest = rows - found["late_max"], rows - found["late_min"]
    text = f"{100 * lowest / rows:.2f} %"
    return text if lowest == highest else f"{text} to {100 * highest / rows:.2f} %"
