"""What a bound decides beside completeness: when results of a chain come, and how long an event is known.

The watermark trails the newest rows by the bound, the widest one of several inputs' (policy ``min``). An operator
behind a join has a watermark of its own, which trails by the join's retention as well: an earlier row may still find a
partner (Spark 4.2, ``StreamingSymmetricHashJoinExec.produceOutputWatermark``). Other operators pass the watermark on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemark.models.duration import format_duration

CoupledOperator = Literal["windows", "sessions", "event time as a key", "deduplication"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupling:
    """What the bounds decide at one stateful operator of a query."""

    operator: CoupledOperator
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


def _text(time_ms: int) -> str:
    return format_duration(time_ms * 1_000)
