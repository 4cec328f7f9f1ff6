"""What a bound decides beside completeness: when results further downstream come, and how long an event is known.

The watermark trails the newest rows by the bound, the widest one of several inputs' (policy ``min``). An operator
behind a join has a watermark of its own, which trails by the join's retention as well: an earlier row may still find a
partner (Spark 4.2, ``StreamingSymmetricHashJoinExec.produceOutputWatermark``). Other operators pass the watermark on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import MaxLen

from tidemark.models.base.duration import format_duration
from tidemark.models.base.ranges import WIRE, DurationMs

DelayedOperator = Literal["windows", "sessions", "event time as a key", "deduplication"]

UNSAFE = (
    "a transformWithState of the query gives its rows an event time of their own, and a watermark nearer to the newest "
    "rows may end the query"
)
"""Why the bound of an unsafe query is not narrowed, and why it does not run in Live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDelay:
    """What the bounds decide at one stateful operator of a query."""

    operator: DelayedOperator
    bound_ms: int
    """How far the watermark trails the newest rows, in milliseconds."""
    retention_ms: int = 0
    """How much further it trails here, behind joins, in milliseconds."""
    joins: tuple[int, ...] = ()
    """Numbers of those joins, from 1."""
    horizon_ms: int | None = None
    """How far the watermark must come beyond an event's time until deduplication forgets it, in milliseconds; None for
    other operators."""

    @property
    def after_ms(self) -> int:
        """How far the newest row must be beyond a window's end, or an event's time, until it is closed or forgotten."""
        return self.bound_ms + self.retention_ms + (self.horizon_ms or 0)

    @property
    def text(self) -> str:
        """The same as a sentence."""
        parts = [f"bound {_text(self.bound_ms)}"]
        if self.retention_ms:
            which = ", ".join(map(str, self.joins))
            parts.append(f"{_text(self.retention_ms)} of join {which}")
        if self.horizon_ms is None:
            closed = "a key is closed" if self.operator == "event time as a key" else "one is closed"
            return f"{closed} {_text(self.after_ms)} after its end: {' + '.join(parts)}"
        parts += [f"horizon {_text(self.horizon_ms)}"] if self.horizon_ms else []
        return f"an event is known for {_text(self.after_ms)}: {' + '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """What a stream's bound decides behind its own operator, as the plan of its query has it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    retention_ms: DurationMs | None = None
    """How much further than the bound the watermark trails where the query's last windows close, in milliseconds: the
    retention of the joins before them; null when no windows close behind another operator."""
    horizon_ms: DurationMs | None = None
    """How far the watermark must come beyond an event's time until deduplication forgets it, in milliseconds; null
    without deduplication."""
    horizon_moves: bool = False
    """Whether the stream's own bound is to be added to ``horizon_ms``."""
    others_ms: DurationMs = 0
    """Widest bound of the query's other inputs that are not in Live, in milliseconds; 0 without any."""
    unsafe: bool = False
    """Whether a narrower bound, or Live, may end the query: a transformWithState gives its rows an event time of their
    own, and the job has not confirmed that they stay ahead of any watermark."""
    range_ms: DurationMs = 0
    """How far the watermark must come beyond a row's time until joins let it go, in milliseconds; 0 without joins."""
    state_unforeseen: Annotated[str, MaxLen(1_000)] | None = None
    """Why the size of the query's state does not follow from the bound; null when it does."""
    state_grows: bool = False
    """Whether that is because Spark never forgets, so that it grows as long as the query runs."""

    def closes_ms(self, bound_ms: int) -> int | None:
        """Return how long after its end a window closes under a bound, in milliseconds of event time."""
        return None if self.retention_ms is None else max(bound_ms, self.others_ms) + self.retention_ms

    def known_ms(self, bound_ms: int) -> int | None:
        """Return how long deduplication knows an event under a bound, in milliseconds of event time."""
        if self.horizon_ms is None:
            return None
        return max(bound_ms, self.others_ms) + self.horizon_ms + (bound_ms if self.horizon_moves else 0)

    def texts(self, bound_ms: int) -> list[str]:
        """Return the same for people, a clause for each."""
        closes_ms, known_ms = self.closes_ms(bound_ms), self.known_ms(bound_ms)
        clauses = []
        if closes_ms is not None:
            which = "bound" if bound_ms >= self.others_ms else "the bound of another input"
            behind = f" + {_text(self.retention_ms)} behind the join" if self.retention_ms else ""
            clauses.append(f"windows close at {which}{behind}: {_text(closes_ms)}")
        if known_ms is not None:
            clauses.append(f"an event is known for {_text(known_ms)}")
        return clauses


def _text(time_ms: int) -> str:
    return format_duration(time_ms * 1_000)
