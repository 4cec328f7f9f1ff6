"""What commands print: JSON as the API has it, and tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import typer

from tidemark.models.duration import format_duration
from tidemark.models.rollout.states import rollout_text
from tidemark.models.target import PPM

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tidemark.controller.api.schemas import RolloutAnswer

__all__ = [
    "as_json",
    "bound",
    "brief",
    "duration",
    "moment",
    "percent",
    "rollout_line",
    "share",
    "table",
    "told",
]

MAX_CHARACTERS = 120
"""How much of a text a table shows."""

NOTHING = "-"
"""What stands for the unknown."""


def as_json(what: BaseModel | Sequence[BaseModel], name: str = "") -> None:
    """Print an answer as JSON, or a list under the name that the API gives it."""
    if isinstance(what, Sequence):
        document: Any = {name: [item.model_dump(mode="json") for item in what]}
    else:
        document = what.model_dump(mode="json")
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> None:
    """Print a table, or ``empty`` when it has no rows."""
    from rich.console import Console  # noqa: PLC0415 - the other commands start fast without it
    from rich.table import Table  # noqa: PLC0415

    found = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        found.add_column(column, overflow="fold")
    every = [*rows]
    if not every:
        typer.echo(empty)
        return
    for row in every:
        found.add_row(*row)
    Console(highlight=False, markup=False).print(found)


def told(facts: Mapping[str, str]) -> None:
    """Print facts, one a line, by name."""
    width = max(map(len, facts))
    for name, text in facts.items():
        typer.echo(f"{name:<{width}}  {text}".rstrip())


def bound(bound_ms: int | None) -> str:
    """Return a bound in words."""
    return duration(bound_ms)


def brief(text: str) -> str:
    """Return a text in no more words than a table bears; JSON has all of it."""
    return shorten(text, width=MAX_CHARACTERS, placeholder=" ...")


def duration(duration_ms: int | None) -> str:
    """Return a duration in words, as options take it."""
    return NOTHING if duration_ms is None else format_duration(duration_ms * 1_000)


def moment(time_us: int | None) -> str:
    """Return a time to the second, in UTC."""
    if time_us is None:
        return NOTHING
    return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def percent(share_ppm: int | None) -> str:
    """Return a share as a percentage, to the last part per million."""
    return NOTHING if share_ppm is None else f"{(Decimal(share_ppm) / 10_000).normalize():f} %"


def share(share_ppm: int | None) -> str:
    """Return a share as a decimal, as options take it."""
    return NOTHING if share_ppm is None else f"{(Decimal(share_ppm) / PPM).normalize():f}"


def rollout_line(row: RolloutAnswer) -> str:
    """Return the number of a rollout, where it is and why, with the next command where it waits for a person."""
    text = rollout_text(row.id, row.state, row.reason)
    return text if row.state != "AwaitingApproval" else f"{text}; tidemark approve {row.id} --reason ..."
