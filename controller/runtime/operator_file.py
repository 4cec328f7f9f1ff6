"""Files of the controller's operators, in TOML: a table for each thing that the controller may call, by its name.

Addresses and tokens stand there alone, so that no role for a stream is enough to make the controller call an address.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

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
        file: the file.
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
        raise ValueError(f"it is not TOML: {error}") from None
    return {name: _read(what, name, table, read) for name, table in tables.items()}


def _read(what: str, name: str, table: object, read: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        _NAME.validate_python(name)
        return read(table if isinstance(table, Mapping) else {})
    except ValidationError as error:
        found = error.errors()[0]
        where = "".join(f".{part}" for part in found["loc"][:1])
        raise ValueError(f"{what} {name!r}{where}: {found['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:
        raise ValueError(f"{what} {name!r}: {error}") from None
