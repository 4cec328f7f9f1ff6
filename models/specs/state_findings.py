"""What is found of a query's state and watermarks before it runs: what never ends, and what has no effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.models.base.stateful import Kept, OperatorRule
from tidemark.models.specs.findings import Finding

_FOR_EVER = {
    "dropDuplicates": (
        "Spark never forgets a key of {}, none of which is an event time",
        "write dropDuplicatesWithinWatermark, which does; or add the event time to the keys, if duplicates share it",
    ),
    "join": (
        "Spark never evicts the rows of one side or both of a {}",
        "give both inputs a watermark, and the condition a range that Spark reads",
    ),
    "aggregate": ("in complete mode Spark never forgets a key of {}", "choose output mode append or update"),
}
"""By operator what Spark never forgets, and what to write instead."""

_NO_EFFECT: dict[Kept | None, tuple[str, str]] = {
    None: (
        "the query has no stateful operator, and one within foreachBatch sees one batch alone",
        "put the operator into the query itself, or leave withWatermark out",
    ),
    "one row": (
        "an aggregate without keys sums up all rows",
        "group by a window, or leave withWatermark out",
    ),
    "keys": (
        "no key of {} is the event time or a window of it; computing or casting it makes another column",
        "group by a window of the event time itself, or call withWatermark on the new column, after it is computed",
    ),
    "function": ("{} does nothing by event time", "choose time mode EventTime or EventTimeTimeout"),
}
"""By what a query's first operator keeps, None without one, why no watermark has an effect, and what to write."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """A stateful operator of a query."""

    rule: OperatorRule
    keys: tuple[str, ...] = ()
    """The columns by which it groups rows, or deduplicates them."""

    @property
    def name(self) -> str:
        """What it is called: ``dropDuplicates(id)``."""
        return f"{self.rule.operator}({', '.join(self.keys)})" if self.keys else str(self.rule)

    @property
    def never_forgets(self) -> Finding | None:
        """That its state grows with the rows, whatever the watermark; None when it does not."""
        if self.rule.kept != "ever":
            return None
        what, instead = _FOR_EVER[self.rule.operator]
        text = f"{what.format(self.name)}: the state grows as long as the query runs, under any bound"
        return Finding("warning", "never_forgotten", text, instead)


def judge_state(operators: Sequence[StatefulOperator], event_times: Sequence[str] = ()) -> list[Finding]:
    """Return which operators never forget, joins apart, and that no watermark has an effect where nothing else says so.

    Args:
        operators: a query's stateful operators, upstream ones first.
        event_times: its columns with a watermark.
    """
    findings = [
        finding
        for operator in operators
        if operator.rule.operator != "join" and (finding := operator.never_forgets) is not None
    ]
    kept, name = (operators[0].rule.kept, operators[0].name) if operators else (None, "")
    effective = any(operator.rule.late_by or operator.rule.follows_bound for operator in operators)
    if event_times and not effective and kept in _NO_EFFECT:
        why, instead = _NO_EFFECT[kept]
        text = f"the watermark on {', '.join(event_times)} has no effect: {why.format(name)}"
        findings.append(Finding("warning", "watermark_without_effect", text, instead))
    return findings
