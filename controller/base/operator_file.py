"""Files of the controller's operators, in TOML: a table for each thing that the controller may call, by its name.

These are outside gates, webhooks for alerts, and issuers of tokens.

Addresses and tokens stand there alone, so that no role for a stream is enough to make the controller call an address.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args

import httpx
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from tidemark.controller.base.alert_table import ALERTS, AlertSeverity
from tidemark.controller.base.fetch import is_safe_address
from tidemark.controller.base.principal import GroupGrant, parse_group_grants
from tidemark.controller.base.sentences import sentence
from tidemark.controller.base.syntax import toml_problem
from tidemark.models.base.text import format_number

T = TypeVar("T")


def _address(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("give an address that begins with http:// or https://")
    return text


Address = Annotated[str, AfterValidator(_address)]
"""An address that can be called."""

_NAME = TypeAdapter(Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")])


class Called(BaseModel):
    """What the controller may call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token_file: Path | None = None
    """File with a bearer token that is sent along, read each time; None for none."""


def read_tables(file: Path | None, what: str, read: Callable[[Mapping[str, Any]], T]) -> dict[str, T]:
    """Return what the tables of a file say, by name; nothing without a file.

    Args:
        what: what each table is about, in errors.
        read: reads one table; pydantic's and its own ``ValueError`` are named with the table and the field.

    Raises:
        ValueError: when the file cannot be read or a table in it cannot be used; the text names both, and no address.
    """
    if file is None:
        return {}
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not TOML: {toml_problem(error)}") from None
    return {name: _read(what, name, table, read) for name, table in tables.items()}


def _read(what: str, name: str, table: object, read: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        _NAME.validate_python(name)
        return read(table if isinstance(table, Mapping) else {})
    except ValidationError as error:
        fault = error.errors()[0]
        where = "".join(f".{part}" for part in fault["loc"][:1])
        raise ValueError(f"{what} {name!r}{where}: {sentence(fault, repeat=False)}") from None
    except ValueError as error:
        raise ValueError(f"{what} {name!r}: {error}") from None


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
    """Where messages are posted to, in the form of Alertmanager's webhook."""
    match: dict[_LabelName, _Values] = Field(default_factory=dict)
    """Labels that an alert must have, each with the value or one of the values given. Without any, the destination
    takes the alerts that no other one takes."""

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        for name, allowed in _KNOWN.items():
            unknown = sorted(set(self.match.get(name, ())) - allowed)
            if unknown:
                raise ValueError(
                    f"no alert has the {name} {unknown[0]!r}; there are {', '.join(sorted(allowed))}"
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
        labels: labels that all alerts of the stream have; what only some have, such as a partition, counts as missing.
    """
    by_alert = [
        (alert.name, takers(destinations, {**labels, "alertname": alert.name, "severity": alert.severity}))
        for alert in ALERTS
        if alert.notified
    ]
    used = {name for _, some in by_alert for name in some}
    return (
        [name for name in destinations if name in used],
        list(dict.fromkeys(alert for alert, some in by_alert if not some)),
    )


def _grants(text: str) -> str:
    parse_group_grants(text)
    return text


_Text = Annotated[str, Field(min_length=1)]
_Grants = Annotated[str, AfterValidator(_grants)]


class Issuer(Called):
    """An issuer whose JSON Web Tokens (RFC 7519) are accepted, and what their users may do.

    Its ``token_file`` is sent when its keys are read, as the API server of Kubernetes wants it.
    """

    issuer: Address
    """Its address, exactly as the claim ``iss`` has it; its keys are found by OpenID Connect Discovery."""
    audience: _Text
    """What the claim ``aud`` has to name: a token for another service is not accepted."""
    user_claim: _Text = "sub"
    """Claim that names the user; dots lead into objects."""
    groups_claim: _Text = "groups"
    """Claim that lists the user's groups, such as ``realm_access.roles``."""
    group_roles: _Grants = ""
    """What groups may do, as in ``TIDEMARK_PROXY_ROLES``."""
    user_roles: _Grants = ""
    """The same by the user's name: a user cannot become a member of a group by its name."""
    ca_file: Path | None = None
    """File with the certificates of its authority, PEM, read each time; None for those of the system."""
    client_id: _Text | None = None
    """What people sign in as, by ``tidemark login``; None: nobody does, as with an issuer for programs."""
    scope: _Text = "openid"
    """What is asked for then, separated by spaces."""

    @property
    def by_group(self) -> tuple[GroupGrant, ...]:
        """What groups may do."""
        return parse_group_grants(self.group_roles)

    @property
    def by_user(self) -> tuple[GroupGrant, ...]:
        """What users may do, each by name in place of a group's."""
        return parse_group_grants(self.user_roles)

    @model_validator(mode="after")
    def _can_be_trusted(self) -> Self:
        if not is_safe_address(self.issuer):
            raise ValueError(
                "issuer must begin with https://: whoever is on the way could send keys of its own"
            )
        if not (self.by_group or self.by_user):
            raise ValueError("give group_roles or user_roles, or both: without them nobody may do anything")
        return self


def read_issuers(file: Path | None) -> dict[str, Issuer]:
    """Return the issuers of a file by name; none without a file.

    Raises:
        ValueError: when the file cannot be read, an issuer in it cannot be used, or two have the same address; the text
            names the file and the issuer.
    """
    issuers = read_tables(file, "issuer", lambda table: Issuer(**table))
    names: dict[str, str] = {}
    for name, one in issuers.items():
        other = names.setdefault(one.issuer, name)
        if other != name:
            raise ValueError(f"the issuers {other!r} and {name!r} have the same address")
    return issuers
