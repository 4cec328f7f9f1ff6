"""The fields of what people set, as a table: how forms name them, and how commands and forms read and show them."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

Unit = Literal["duration", "share", "number", "choice", "flag", "text", "list"]
"""How a value is written: milliseconds as a duration, parts per million as a share, and so on."""

_SHOWN = "shown"
_UNITS: dict[Unit, tuple[str]] = {"duration": ("in milliseconds",), "share": ("in parts per million",)}
_KINDS: dict[Any, Unit] = {bool: "flag", int: "number", str: "text"}
_SUFFIXES: dict[str, Unit] = {"_ms": "duration", "_ppm": "share", "_rows": "number"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What people read beside a field."""

    help: str
    """What it is, without a full stop."""
    example: int | str | None = None
    """A value that it may have."""
    label: str = ""
    """Its name in a form; empty: the name of the field in words."""
    none: str = ""
    """What null means; empty: none."""


@dataclass(frozen=True, slots=True)
class SpecField:
    """One field of a specification."""

    name: str
    """Its name in the API."""
    shown: Shown
    unit: Unit
    nullable: bool
    default: Any
    """None where it has none, or is null."""
    choices: tuple[str, ...]
    """What a choice may be; empty for any other unit."""

    @property
    def words(self) -> str:
        """Its name without the unit, in words."""
        suffix = next((ending for ending in _SUFFIXES if self.name.endswith(ending)), "")
        return self.name.removesuffix(suffix).replace("_", " ")

    @property
    def description(self) -> str:
        """What it is, with its unit in the API."""
        null = f"null: {self.shown.none}" if self.shown.none else "null for none"
        notes = [*_UNITS.get(self.unit, ()), *([null] if self.nullable else ())]
        text = "; ".join(notes)
        return f"{self.shown.help}." + (f" {text[0].upper()}{text[1:]}." if notes else "")

    @property
    def label(self) -> str:
        """Its name in a form."""
        return self.shown.label or self.words.capitalize()


def shown(
    help: str,  # noqa: A002 - what it is
    example: int | str | None = None,
    label: str = "",
    none: str = "",
) -> dict[str, Shown]:
    """Return the metadata of a field that people write."""
    return {_SHOWN: Shown(help, example, label, none)}


@cache
def spec_fields(kind: type[Any]) -> tuple[SpecField, ...]:
    """Return the fields of a dataclass whose metadata say how they are shown."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(one, hints[one.name]) for one in fields(kind) if _SHOWN in one.metadata)


def _field(one: Field[Any], hint: Any) -> SpecField:
    parts = _alternatives(hint)
    nullable = NoneType in parts
    (kind,) = (part for part in parts if part is not NoneType)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    unit: Unit | None = next((unit for suffix, unit in _SUFFIXES.items() if one.name.endswith(suffix)), None)
    if unit is None:
        unit = "choice" if choices else _KINDS.get(kind, "list")
    return SpecField(one.name, one.metadata[_SHOWN], unit, nullable, _default(one), choices)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """Return what a hint allows, without what is annotated."""
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in {Union, UnionType}:
        return tuple(kind for part in get_args(hint) for kind in _alternatives(part))
    return (hint,)


def defaults_of(kind: type[Any]) -> dict[str, Any]:
    """Return the default of each field of a dataclass; None for a field without one, which is never None."""
    return {field.name: _default(field) for field in fields(kind)}


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default
