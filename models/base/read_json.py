"""Reads objects that another release may have written: over the wire, on disk or in the store.

A reader ignores what it does not know, and what is missing has its default. So a later release may add fields without a
word to the earlier ones. A Spark driver has no validation library, so this reads into plain dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

Reader = Callable[[Any], Any]


def read_object(kind: type[T], value: object) -> T:
    """Return the dataclass ``kind`` from an object of decoded JSON; its parts are read in the same way.

    Args:
        kind: a dataclass; a union of several in it is told apart by their field ``kind``.
        value: what ``json.loads`` returned.

    Raises:
        ValueError: when it is no object, lacks a field that has no default, or holds what ``kind`` refuses.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{kind.__name__} is an object, not {type(value).__name__}")  # noqa: TRY004 - JSON, not a call
    try:
        return kind(
            **{
                name: value[name] if read is None else read(value[name])
                for name, read in _fields(cast("Hashable", kind))
                if name in value
            }
        )
    except (TypeError, KeyError) as error:
        raise ValueError(f"{kind.__name__}: {error}") from None


@cache
def _fields(kind: Any) -> tuple[tuple[str, Reader | None], ...]:
    """Return the names of the fields, each with what reads it; None reads a value as it is."""
    hints = get_type_hints(kind)
    return tuple((field.name, reader_of(hints[field.name])) for field in fields(kind) if field.init)


def reader_of(hint: Any) -> Reader | None:
    """Return what reads a value of a type; None where it is read as it is."""
    if is_dataclass(hint):
        return partial(read_object, cast("type[Any]", hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple:
        read = reader_of(parts[0]) if parts[1:] == (...,) else None
        return tuple if read is None else lambda value: tuple(map(read, value))
    if origin in {Union, UnionType}:
        return _reader_of_one([part for part in parts if part is not type(None)])
    return None


def _reader_of_one(parts: list[Any]) -> Reader | None:
    """Return what reads one of ``parts``, or null."""
    if len(parts) == 1:
        read = reader_of(parts[0])
        return read and (lambda value: None if value is None else read(value))
    kinds: dict[Any, Any] = {
        field.default: part
        for part in parts
        if is_dataclass(part)
        for field in fields(part)
        if field.name == "kind"
    }
    return (lambda value: read_object(kinds[value["kind"]], value)) if kinds else None
