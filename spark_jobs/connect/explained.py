"""The text of ``explain()``: what of a plan a Spark Connect client is shown.

A stateful operator is printed with where its state is, and an aggregate with its output mode
(Spark 4.0 to 4.3, ``StatefulOperatorStateInfo``, ``StateStoreSaveExec``):

    StateStoreSave [window#23], state info [ checkpoint = file:/jobs/counts/state, runId = ..., opId = 0, ...], Append,

Below it is the tap, ``CollectMetrics tidemark:...``, and what stands between the two changes rows or does not. A column
made of the event time is printed with its delay, ``ts#4-T10000ms``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidemark.models.protocol.messages import OutputMode
from tidemark.spark_jobs.spark.placement import WORDS

_STATE = re.compile(r"state info \[ checkpoint = (?P<checkpoint>.+?)/state, runId = ")
_MODE = re.compile(r"StateStoreSave .*, (?P<mode>Append|Update|Complete), ")
_OUTPUT_MODES: dict[str, OutputMode] = {"Append": "append", "Update": "update", "Complete": "complete"}
_NODE = re.compile(r"(?P<tree>[ :|+-]*)(?:\*\(\d+\) ?|[*!~] ?)?(?P<kind>[A-Za-z]\w*) ?(?P<rest>.*)")
_TAP = re.compile(r"(?P<name>tidemark:.+?:\d+)(?=, \[)")
_TIMED = r"[^\s(),]+-T\d+ms"
_HARMLESS = re.compile(
    rf"isnotnull\({_TIMED}(\.start|\.end)?\)|{_TIMED} >= {_TIMED}\.start|{_TIMED} < {_TIMED}\.end"
)
"""Conditions that drop only rows without an event time, and sliding windows that a row is not in."""

_PASSING = frozenset(
    {
        "Project",
        "EventTimeWatermark",
        "CollectMetrics",
        "Union",
        "Expand",
        "HashAggregate",
        "ObjectHashAggregate",
        "SortAggregate",
        "MergingSessions",
        "UpdatingSessions",
        "BroadcastExchange",
        "Exchange",
        "Coalesce",
        "Sort",
        "BatchEvalPython",
        "ArrowEvalPython",
    }
)
"""What passes each row on once, or in each of its windows, or begins to aggregate it."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What is the same for all batches of a run."""

    checkpoint: str
    """The query's checkpoint, as a URL."""
    output_mode: OutputMode
    """Append also for an update of a query without aggregates, which puts out the same rows."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """By name of a tap what changes its rows before they reach the operator, in words; nothing where nothing does."""


def read_explained(text: str) -> Explained | None:
    """Return what a text says; None when no batch has run, or when no stateful operator of this form is in it."""
    state = _STATE.search(text)
    if state is None:
        return None
    modes = {_OUTPUT_MODES[mode] for mode in _MODE.findall(text)}
    # A query has one mode, and Spark has complete mode for aggregates alone.
    return Explained(state["checkpoint"], modes.pop() if modes else "append", dict(_changed(text)))


def _changed(text: str) -> Iterator[tuple[str, str]]:
    """Yield the taps between which and the operator rows change, with what changes them."""
    above: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        node = _NODE.fullmatch(line)
        if node is None:
            continue
        depth, kind, rest = len(node["tree"]), node["kind"], node["rest"]
        while above and above[-1][0] >= depth:
            above.pop()
        tap = _TAP.search(rest)
        if kind == "CollectMetrics" and tap is not None:
            stateful = max((i for i, (_, _, of) in enumerate(above) if _STATE.search(of)), default=-1)
            between = above[stateful + 1 :] if stateful >= 0 else []
            what = next((WORDS.get(name, name) for _, name, of in between if _changes(name, of)), None)
            if what is not None:
                yield tap["name"], what
        above.append((depth, kind, rest))


def _changes(kind: str, rest: str) -> bool:
    if kind != "Filter":
        return kind not in _PASSING
    conditions = (condition.strip("() ") for condition in rest.split(" AND "))
    return not all(_HARMLESS.fullmatch(f"{part})" if "(" in part else part) for part in conditions)
