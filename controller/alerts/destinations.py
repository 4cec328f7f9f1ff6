"""Where notifications go: destinations that the operators set up in a file, chosen by the labels of an alert."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from tidemark.controller.alerts.table import ALERTS, AlertSeverity
from tidemark.controller.runtime.operator_file import Address, Called, read_tables

DEFAULT = "default"
"""Name of the destination of ``TIDEMARK_NOTIFY_URL``."""


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


_LabelName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Values = Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_several)]

_KNOWN: Mapping[str, frozenset[str]] = {
    "alertname": frozenset(alert.name for alert in ALERTS if alert.notified),
    "severity": frozenset(get_args(AlertSeverity)),
}
"""Labels whose values are known beforehand."""


class Destination(Called):
    """A webhook that is notified of some alerts."""

    webhook: Address
    """Where messages are posted to, in Alertmanager's format."""
    match: dict[_LabelName, _Values] = Field(default_factory=dict)
    """Labels that an alert must have, each with the value or one of the values given. Without any, the destination
    takes the alerts that no other one takes."""

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        for name, known in _KNOWN.items():
            unknown = sorted(set(self.match.get(name, ())) - known)
            if unknown:
                raise ValueError(
                    f"no alert has the {name} {unknown[0]!r}; there are {', '.join(sorted(known))}"
                )
        return self

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Return whether an alert with these labels has all that is asked for."""
        return all(labels.get(name) in values for name, values in self.match.items())


def read_destinations(file: Path | None) -> dict[str, Destination]:
    """Return the destinations of a file by name; none without a file.

    Raises:
        ValueError: when the file cannot be read or a destination in it cannot be used; the text names both, and no
            address.
    """
    return read_tables(file, "destination", _destination)


def _destination(table: Mapping[str, Any]) -> Destination:
    if "webhook" not in table:
        raise ValueError('give each destination a table of its own with webhook = "https://..."')
    return Destination(**table)


def takers(destinations: Mapping[str, Destination], labels: Mapping[str, str]) -> list[str]:
    """Return the names of the destinations that take an alert: all that match, else those without ``match``."""
    matching = [name for name, one in destinations.items() if one.match and one.takes(labels)]
    return matching or [name for name, one in destinations.items() if not one.match]


def destinations_of(
    destinations: Mapping[str, Destination], labels: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return which destinations take alerts of a stream, and the names of its alerts that none takes.

    Args:
        destinations: the destinations by name.
        labels: labels that all alerts of the stream have; what only some have, such as a partition, counts as missing.
    """
    by_alert = [
        (alert.name, takers(destinations, {**labels, "alertname": alert.name, "severity": alert.severity}))
        for alert in ALERTS
        if alert.notified
    ]
    used = {name for _, found in by_alert for name in found}
    return (
        [name for name in destinations if name in used],
        list(dict.fromkeys(alert for alert, found in by_alert if not found)),
    )
