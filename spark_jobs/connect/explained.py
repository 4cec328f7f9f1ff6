"""What the text of ``StreamingQuery.explain()`` says of a query once a batch of it has run. Pure.

A stateful operator is printed with where its state is, and an aggregate with its output mode (Spark 4.0 to 4.3,
``StatefulOperatorStateInfo``, ``StateStoreSaveExec``):

    StateStoreSave [window#23], state info [ checkpoint = file:/jobs/counts/state, runId = ..., opId = 0, ...], Append,
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemark.models.wire import OutputMode

_STATE = re.compile(r"state info \[ checkpoint = (?P<checkpoint>.+?)/state, runId = ")
_MODE = re.compile(r"StateStoreSave .*, (?P<mode>Append|Update|Complete), ")
_OUTPUT_MODES: dict[str, OutputMode] = {"Append": "append", "Update": "update", "Complete": "complete"}


@dataclass(frozen=True, slots=True)
class Explained:
    """What is the same for all batches of a run."""

    checkpoint: str
    """The query's checkpoint, as a URL."""
    output_mode: OutputMode
    """Append also for an update of a query without aggregates, which puts out the same rows."""


def read_explained(text: str) -> Explained | None:
    """Return what a text says; None when no batch has run, or when no stateful operator of this form is in it."""
    state = _STATE.search(text)
    if state is None:
        return None
    modes = {_OUTPUT_MODES[found] for found in _MODE.findall(text)}
    # A query has one mode, and Spark has complete mode for aggregates alone.
    return Explained(state["checkpoint"], modes.pop() if modes else "append")
