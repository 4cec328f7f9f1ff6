"""What commands print for people: lines, tables and facts, and the words of bounds, times and shares."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from textwrap import shorten
from typing import TYPE_CHECKING

import click

from tidemark.controller.base.clock import utc_text
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import format_share
from tidemark.models.base.text import plain
from tidemark.models.recommend.steps import StepKind
from tidemark.models.rollout.states import rollout_text

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.bounds import RecommendationAnswer
    from tidemark.controller.server.schemas.rollouts import RolloutAnswer
    from tidemark.controller.server.schemas.specs import Consequences


_MAX_CHARACTERS = 120
"""Length at which a table cuts a text off."""

_MAX_WIDTH = 100_000
"""Width of a table that nobody's terminal has to break."""

_UNKNOWN = "-"
"""What stands for an unknown value."""


def say(text: str) -> None:
    """Print a line."""
    click.echo(plain(text))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str = "", *, figures: bool = False
) -> None:
    """Print a table, or ``empty`` when it has no rows; with ``figures`` all but the first column stand at the right.

    Its rows are broken to the width of a terminal, or of ``COLUMNS``; a program behind a pipe gets each in one line.
    """
    from rich.console import Console  # noqa: PLC0415 - the other commands start fast without it
    from rich.table import Table  # noqa: PLC0415

    rows_shown = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        rows_shown.add_column(column, overflow="fold", justify="right" if figures and number else "left")
    for row in rows:
        rows_shown.add_row(*map(plain, row))
    if not rows_shown.row_count:
        say(empty)
        return
    console = Console(highlight=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _MAX_WIDTH
    with console.capture() as lines:
        console.print(rows_shown)
    for line in lines.get().splitlines():
        click.echo(line.rstrip())


def done(would: str, did: str, *, dry_run: bool) -> str:
    """Return what a command did, or in a dry run what it would do."""
    return f"would {would}" if dry_run else did


def show_facts(facts: Mapping[str, str]) -> None:
    """Print facts, one per line, each after its name."""
    width = max(map(len, facts))
    for name, text in facts.items():
        say(f"{name:<{width}}  {text}".rstrip())


def brief(text: str) -> str:
    """Return a text cut to the width of a table; JSON has all of it."""
    return shorten(text, width=_MAX_CHARACTERS, placeholder=" ...")


def duration(duration_ms: int | None) -> str:
    """Return a duration in words, as options take it."""
    return _UNKNOWN if duration_ms is None else format_duration(duration_ms * 1_000)


def measured(duration_ms: int | None) -> str:
    """Return a measured duration in words, with as few digits as a reader needs."""
    return _UNKNOWN if duration_ms is None else format_about(duration_ms * 1_000)


def moment(time_us: int | None) -> str:
    """Return a time to the second, in UTC."""
    return _UNKNOWN if time_us is None else utc_text(time_us)


def percent(share_ppm: int | None) -> str:
    """Return a share as a percentage, to the last part per million."""
    return _UNKNOWN if share_ppm is None else format_share(share_ppm)


def decision(recommended: RecommendationAnswer) -> str:
    """Return the reason of the step that decides, and what it means behind the stream's operator.

    What spares restarts starts from what is certified, so that is said before.
    """
    deciding = {recommended.decided_by, StepKind.DOWNSTREAM}
    if recommended.decided_by == StepKind.RESTARTS:
        deciding.add(recommended.steps[0].kind)
    return "; ".join(step.reason for step in recommended.steps if step.kind in deciding)


def rollout_line(row: RolloutAnswer) -> str:
    """Return the number, state and reason of a rollout; with the next command when it waits for approval."""
    text = rollout_text(row.id, row.state, row.reason)
    if row.ended_us is not None:
        text = f"{text} ({moment(row.ended_us)})"
    return text if row.state != "AwaitingApproval" else f"{text}; {approval_command(row.id)}"


def approval_command(rollout_id: int) -> str:
    """Return the command that approves a rollout."""
    return f"tidemark approve {rollout_id} --reason ..."


def show_consequences(answer: Consequences, of: tuple[str, str] | None = None) -> None:
    """Print what is recommended and published after a write, and what applying the recommendation will do.

    Args:
        answer: what the controller answered.
        of: job and stream, for the command that says what is still missing; None prints none.
    """
    published, recommended = answer.published, answer.recommended
    if recommended is not None and recommended.bound_ms is not None:
        say(f"  recommended: {duration(recommended.bound_ms)}; {decision(recommended)}")
    if answer.transition is not None:
        say(f"  expected effect: {answer.transition.text}")
    what, why = duration(published.bound_ms), ""
    if published.bound_ms is None:
        what, why = "the job keeps its own bound", f"; {published.reason}"
    say(f"  published: {what} (generation {published.generation}){why}")
    if answer.held is not None:
        say(f"  not rolled out yet: {answer.held}")
    if of is not None:
        say(f"  next: tidemark doctor {' '.join(map(quote, of))}")
