"""The marks that Spark leaves in the metadata of a plan's columns.

``EventTimeWatermark.delayKey`` marks an event time and all that is made of it, and holds the bound of its watermark;
``TimeWindow.marker`` and ``SessionWindow.marker`` mark windows.
"""

from __future__ import annotations

from typing import Any

_Node = Any
"""An expression of a plan, in the JVM."""

TIME_WINDOW, SESSION_WINDOW = "spark.timeWindow", "spark.sessionWindow"

DELAY = "spark.watermarkDelayMs"


def is_column(expression: _Node) -> bool:
    """Say whether an expression is a column, and not made of some."""
    return str(expression.nodeName()) == "AttributeReference"


def is_event_time(expression: _Node) -> bool:
    """Say whether an expression is a column with a watermark."""
    return is_column(expression) and bool(expression.metadata().contains(DELAY))


def delay_ms(event_time: _Node) -> int:
    """Return the bound of an event time's watermark, in milliseconds."""
    return int(event_time.metadata().getLong(DELAY))


def quoted(name: str) -> str:
    """Return a column's name so that Spark takes it whole, dots and backticks included."""
    return "`" + name.replace("`", "``") + "`"
