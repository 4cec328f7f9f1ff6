"""Specifications as people write them: a field without the unit in its name has the unit in its value.

``target: 99.5%`` is ``target_ppm: 995000``, and ``latency_cap: 15 min`` is ``latency_cap_ms: 900000``. Options of
commands, documents and request bodies are read here, so that each takes the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.target import format_share, parse_share, parse_target
from tidemark.models.specs.fields import SpecField, Unit, spec_fields
from tidemark.models.specs.freeze import parse_freeze

NONE = "none"
"""The text that removes an optional value."""


def read_duration(text: str) -> int | None:
    """Return the whole milliseconds of a duration; None for "none".

    Raises:
        ValueError: when it is not a duration, or finer than a millisecond.
    """
    if text == NONE:
        return None
    duration_us = parse_duration(text)
    if duration_us % 1_000:
        raise ValueError(f"{text!r} is finer than a millisecond")
    return duration_us // 1_000


def read_share(text: str) -> int | None:
    """Return the parts per million of a share such as 0.95, 95% or 1; None for "none".

    Raises:
        ValueError: when it is not a share, more than 1, or finer than a millionth.
    """
    return None if text == NONE else parse_share(text)


def read_number(text: str) -> int | None:
    """Return a whole number; None for "none".

    Raises:
        ValueError: when it is not a whole number.
    """
    if text == NONE:
        return None
    if not re.fullmatch(r"[0-9][0-9_,]*", text):
        raise ValueError(f"{text!r} is not a whole number such as 100000")
    return int(re.sub("[_,]", "", text))


READ: dict[Unit, Callable[[str], int | None]] = {
    "duration": read_duration,
    "share": read_share,
    "number": read_number,
}
"""By unit, what reads a value with it."""

SHOW: dict[Unit, Callable[[int], str]] = {
    "duration": lambda value_ms: format_duration(value_ms * 1_000),
    # Without a space it is one word for a shell.
    "share": lambda value_ppm: format_share(value_ppm).replace(" ", ""),
    "number": str,
}
"""By unit, what shows a value with it."""


def reader_of(one: SpecField) -> Callable[[str], int | str | None]:
    """Return what reads a value of a field that has a unit, or is a text."""
    return _read_target if one.name == "target_ppm" else READ.get(one.unit, _read_text)


def _read_text(text: str) -> str | None:
    return None if text == NONE else text


def _read_target(text: str) -> int:
    try:
        return parse_target(text)
    except ValueError as error:
        # Who reads it names the field.
        raise ValueError(str(error).removeprefix("target ")) from None


def name_in_words(one: SpecField) -> str:
    """Return the name of a field without its unit."""
    return one.words.replace(" ", "_")


@dataclass(slots=True)
class Written:
    """What somebody wrote, in the terms of the interface."""

    fields: dict[str, Any]
    """The fields by their names in the interface; one that is none of them stays as it is."""
    names: dict[str, str] = field(default_factory=dict)
    """By name in the interface what was written, where that differs."""
    problems: dict[str, str] = field(default_factory=dict)
    """By what was written, why it cannot be read."""


def in_words(kind: Any, fields: Mapping[str, Any]) -> Written:
    """Return fields, of which some may be in words, in the terms of the interface."""
    by_words = _by_words(kind)
    terms = Written({})
    for name, value in fields.items():
        one = by_words.get(name)
        try:
            if name == "freeze_windows" and isinstance(value, list):
                terms.fields[name] = [parse_freeze(text) if isinstance(text, str) else text for text in value]
            elif one is None or one.name == name:
                terms.fields[name] = value
            elif one.name in fields:
                terms.problems[name] = f"{one.name} says the same; leave one out"
            else:
                terms.names[one.name] = name
                terms.fields[one.name] = None if value is None else _read(one, value)
        except ValueError as error:
            terms.problems[name] = str(error)
    return terms


@cache
def _by_words(kind: Any) -> Mapping[str, SpecField]:
    return {name_in_words(one): one for one in spec_fields(kind) if one.unit in READ}


def _read(one: SpecField, value: Any) -> int | str | None:
    # A number beside a name without a unit is a share, whose unit is 1.
    if isinstance(value, str) or (one.unit == "share" and _is_number(value)):
        return reader_of(one)(str(value))
    raise ValueError(f"{value} has no unit; write it like '{example_of(one)}', or as {one.name}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def example_of(one: SpecField) -> str:
    """Return a value of a field in words."""
    return SHOW[one.unit](int(one.shown.example or one.default or 1))
