"""Which changes of mode an existing checkpoint supports (Spark 4.2.0; ``tests/spark_jobs/live/`` has the tests).

What counts is whether the plan has the control stream, that is, whether the call has a ceiling. A checkpoint keeps the
number of its sources for good, unless it was begun in the second format of the offset log (conf
``spark.sql.streaming.offsetLog.formatVersion=2``) and is of one input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_Verdict = Literal["works", "new checkpoint"]


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A row of the table."""

    before: str
    """What the checkpoint was written by."""
    after: str
    """What is to go on from it."""
    verdict: _Verdict
    """Whether that works."""
    note: str
    """What to know of it."""


PLAIN, TAPPED, CEILED = "plain withWatermark", "without a ceiling", "with a ceiling"

_OTHERWISE = "unless it was begun with offsetLog.formatVersion=2, and has one input"

MODE_CHANGES = (
    ModeChange(PLAIN, TAPPED, "works", "in every mode but Live, which needs the ceiling"),
    ModeChange(TAPPED, PLAIN, "works", "Tidemark taken out again"),
    ModeChange(TAPPED, TAPPED, "works", "Off, OnRestart, Restart: the bound is read at the start"),
    ModeChange(
        CEILED, CEILED, "works", "every mode to every other, another bound or ceiling, at the next start"
    ),
    ModeChange(PLAIN, CEILED, "new checkpoint", _OTHERWISE),
    ModeChange(TAPPED, CEILED, "new checkpoint", _OTHERWISE),
    ModeChange(CEILED, TAPPED, "new checkpoint", _OTHERWISE),
    ModeChange(CEILED, PLAIN, "new checkpoint", _OTHERWISE),
)
"""The table; docs/explanation/live.md shows it."""

_OTHER_SOURCES = "sources in the checkpoint offsets"


def why_rejected(error: str, has_ceiling: bool) -> str | None:
    """Return what to do about Spark's ``error`` at the start of a query; None when it is about something else."""
    if _OTHER_SOURCES not in error:
        return None
    before, after = (TAPPED, CEILED) if has_ceiling else (CEILED, TAPPED)
    row = next(row for row in MODE_CHANGES if (row.before, row.after) == (before, after))
    return (
        f"the checkpoint has another number of sources than the plan. If it was written by a call {before} and this "
        f"one is {after}: that needs a {row.verdict}, {row.note} (see the table of mode changes in "
        "docs/explanation/live.md)"
    )
