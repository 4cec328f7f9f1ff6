"""How far long work is, on standard error: a bar on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_LINE_EVERY = {"rows": 5_000_000, "slots": 20_000, "bounds": 1_000, "reports": 20_000}
"""Units of work from one line to the next: some ten seconds of work, so that short runs say nothing."""
_MAX_LINES = 20
"""Maximum number of lines of one task."""


@dataclass(slots=True)
class _Task:
    description: str
    total: int | None
    done: int = 0
    lines: int = 0


class Lines:
    """Progress where there is no terminal: a line for so much work done, so that a log shows that a run is alive.

    It has the part of ``rich.progress.Progress`` that the commands use.

    Args:
        unit: what is counted, in the plural.
        say: prints a line.
    """

    def __init__(self, unit: str, say: Callable[[str], object]) -> None:
        self._unit = unit
        self._say = say
        self._tasks: list[_Task] = []

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; there is nothing to undo."""

    def add_task(self, description: str, total: int | None) -> TaskID:
        """Add a task of ``total`` units, None where that is not known."""
        self._tasks.append(_Task(description, total))
        return TaskID(len(self._tasks) - 1)

    def advance(self, task_id: TaskID, advance: int) -> None:
        """Count ``advance`` further units as done."""
        self.update(task_id, completed=self._tasks[task_id].done + advance)

    def update(self, task_id: TaskID, *, completed: int) -> None:
        """Count ``completed`` units as done in all."""
        task = self._tasks[task_id]
        task.done = completed
        lines = completed // max(_LINE_EVERY[self._unit], (task.total or 0) // _MAX_LINES)
        # What is done needs no line, and some of the work is done at once.
        if lines > task.lines and completed != task.total:
            task.lines = lines
            of = "" if task.total is None else f" of {task.total:,}"
            self._say(f"{task.description}: {completed:,}{of} {self._unit}")


def progress_bar(unit: str = "rows") -> Progress | Lines:
    """Return what shows how many ``unit`` (rows, slots, bounds or reports) are done, on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return Lines(unit, lambda line: click.echo(line, err=True))
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


@contextmanager
def slots_bar(slots: int) -> Iterator[Callable[[str, int], None]]:
    """Show how far replays of ``slots`` slots are; yields a function that takes the name of one and its slots done."""
    with progress_bar("slots") as progress:
        tasks: dict[str, TaskID] = {}

        def progressed(what: str, done: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=slots)
            progress.update(tasks[what], completed=done)

        yield progressed
