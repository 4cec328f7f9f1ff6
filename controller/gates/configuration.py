"""The outside gates that operators of the controller set up in a file; policies name them.

So the controller calls only addresses that its operators chose, whatever role somebody has for a stream.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

import httpx
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)


def _address(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("give an address that begins with http:// or https://")
    return text


_Address = Annotated[str, AfterValidator(_address)]


_Limit = Annotated[float | None, Field(allow_inf_nan=False)]


class _Described(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    token_file: Path | None = None
    """File with a bearer token that is sent along, read for each question; None for none."""


class WebhookGate(_Described):
    """A service that gets the rollout and answers by its HTTP status."""

    webhook: _Address
    """Where the rollout is posted to."""


class PrometheusGate(_Described):
    """An instant query whose values must be within limits."""

    prometheus: _Address
    """Base address of a Prometheus, or of what answers like one."""
    query: Annotated[str, Field(min_length=1)]
    """The query; ``{{job}}`` and ``{{stream}}`` stand for the names of both, as PromQL strings with quotes."""
    min: _Limit = None
    """Minimum of each value; None for none."""
    max: _Limit = None
    """Maximum of each value; None for none."""

    @model_validator(mode="after")
    def _has_limits(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min or max, or both: what the values of the query must keep to")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


Gate = WebhookGate | PrometheusGate

_NAME = TypeAdapter(Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")])


def read_gates(file: Path | None) -> dict[str, Gate]:
    """Return the gates of a file by name; none without a file.

    Raises:
        ValueError: when the file cannot be read or a gate in it cannot be used; the text names both, and no address.
    """
    if file is None:
        return {}
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"it is not TOML: {error}") from None
    return {name: _gate(name, table) for name, table in tables.items()}


def _gate(name: str, table: object) -> Gate:
    if not isinstance(table, Mapping) or ("webhook" in table) == ("prometheus" in table):
        raise ValueError(
            f'gate {name!r}: give each gate a table of its own with webhook = "https://...", '
            'or with prometheus = "https://..." and a query'
        )
    kind = WebhookGate if "webhook" in table else PrometheusGate
    try:
        _NAME.validate_python(name)
        return kind(**table)
    except ValidationError as error:
        found = error.errors()[0]
        where = f".{found['loc'][0]}" if found["loc"] else ""
        raise ValueError(f"gate {name!r}{where}: {found['msg'].removeprefix('Value error, ')}") from None
