"""The table of Spark's stateful operators: which drop late rows, by which time, and what they forget.

All that depends on it reads it here: how rows are judged, what lint and the start of a query say, and whether the state
under another bound can be foretold. A test makes each row true on real Spark, of each version that is supported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CONFIRMED_KEY = "spark.tidemark.own.event.time.confirmed"
"""The conf by which a job's author confirms that its rows stay ahead of any watermark."""

WatermarkPolicy = Literal["min", "max"]
"""How Spark makes one watermark of those of a query's inputs (``multipleWatermarkPolicy``)."""

LateBy = Literal["window", "session", "event time"]
"""What is compared with the watermark: the end of a row's window, event time + gap, or the event time itself."""

Kept = Literal["watermark", "watermark + bound", "watermark + range", "function", "keys", "ever", "one row"]
"""How long a row is kept. watermark: until the watermark has passed its key; + bound, + range of the join: until it is
as far beyond; function: as the user's function, timers, timeout or TTL say; keys: one row for each key, for ever; ever:
the state grows with the rows; one row: there is no more."""


@dataclass(frozen=True, slots=True)
class OperatorRule:
    """What Spark does at one kind of stateful operator."""

    operator: str
    """As users write it."""
    case: str
    """The parameters that decide; empty where none does."""
    late_by: LateBy | None
    """By what late rows are dropped; None where none is, however late."""
    kept: Kept

    @property
    def follows_bound(self) -> bool:
        """Whether the size of the state follows from the bound."""
        return self.kept.startswith("watermark")

    def __str__(self) -> str:
        """Name it."""
        return f"{self.operator} ({self.case})" if self.case else self.operator


_RULES = (
    OperatorRule("aggregate", "window among its keys", "window", "watermark"),
    OperatorRule("aggregate", "session among its keys", "session", "watermark"),
    OperatorRule("aggregate", "event time among its keys", "event time", "watermark"),
    OperatorRule("aggregate", "keys without event time", None, "keys"),
    OperatorRule("aggregate", "no keys", None, "one row"),
    OperatorRule("aggregate", "window among its keys, complete mode", None, "ever"),
    OperatorRule("aggregate", "session among its keys, complete mode", "session", "ever"),
    OperatorRule("aggregate", "event time among its keys, complete mode", None, "ever"),
    OperatorRule("dropDuplicates", "event time among its keys", "event time", "watermark"),
    OperatorRule("dropDuplicates", "keys without event time", "event time", "ever"),
    OperatorRule("dropDuplicates", "no event time reaches it", None, "ever"),
    OperatorRule("dropDuplicatesWithinWatermark", "", "event time", "watermark + bound"),
    OperatorRule("join", "windows among its keys", "window", "watermark"),
    OperatorRule("join", "range of event times", "event time", "watermark + range"),
    OperatorRule("join", "no range that Spark reads", "event time", "ever"),
    OperatorRule("join", "no event time reaches it", None, "ever"),
    OperatorRule("transformWithState", "None", None, "function"),
    OperatorRule("transformWithState", "ProcessingTime", None, "function"),
    OperatorRule("transformWithState", "EventTime", "event time", "function"),
    OperatorRule("flatMapGroupsWithState", "NoTimeout", None, "function"),
    OperatorRule("flatMapGroupsWithState", "ProcessingTimeTimeout", None, "function"),
    OperatorRule("flatMapGroupsWithState", "EventTimeTimeout", "event time", "function"),
    OperatorRule("limit", "", None, "one row"),
)

OPERATOR_RULES = {(rule.operator, rule.case): rule for rule in _RULES}
"""The table, by operator and case. Late is what is at or below the watermark of the batch before; of operators behind
one another the first one drops. (``spark.sql.streaming.statefulOperator.allowMultiple=false``, under which it would be
the watermark of the batch itself, is refused.)"""
