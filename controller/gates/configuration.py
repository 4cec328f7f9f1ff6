"""The outside gates that operators of the controller set up in a file; policies name them.

So the controller calls only addresses that its operators chose, whatever role somebody has for a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tidemark.controller.runtime.operator_file import Address, Called, read_tables
from tidemark.models.base.text import format_number

_Limit = Annotated[float | None, Field(allow_inf_nan=False)]


class WebhookGate(Called):
    """A service that gets the rollout and answers by its HTTP status."""

    webhook: Address
    """Where the rollout is posted to."""

    @property
    def asks(self) -> str:
        """What it is asked, in words, without the address."""
        return "whether it answers the rollout with an HTTP status of 200 to 299"


class PrometheusGate(Called):
    """An instant query whose values must be within limits."""

    prometheus: Address
    """Base address of a Prometheus, or of what answers like one."""
    query: Annotated[str, Field(min_length=1)]
    """The query; ``{{job}}`` and ``{{stream}}`` stand for the names of both, as PromQL strings with quotes."""
    min: _Limit = None
    """Minimum of each value; None for none."""
    max: _Limit = None
    """Maximum of each value; None for none."""

    @property
    def asks(self) -> str:
        """What it is asked, in words, without the address."""
        limits = [
            f"{word} {format_number(limit)}"
            for word, limit in (("at least", self.min), ("at most", self.max))
            if limit is not None
        ]
        return f"whether {self.query} is {' and '.join(limits)}"

    @model_validator(mode="after")
    def _has_limits(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min or max, or both: what the values of the query must keep to")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


Gate = WebhookGate | PrometheusGate


def read_gates(file: Path | None) -> dict[str, Gate]:
    """Return the gates of a file by name; none without a file.

    Raises:
        ValueError: when the file cannot be read or a gate in it cannot be used; the text names both, and no address.
    """
    return read_tables(file, "gate", _gate)


def _gate(table: Mapping[str, Any]) -> Gate:
    if ("webhook" in table) == ("prometheus" in table):
        raise ValueError(
            'give each gate a table of its own with webhook = "https://...", '
            'or with prometheus = "https://..." and a query'
        )
    return WebhookGate(**table) if "webhook" in table else PrometheusGate(**table)
