"""What pydantic found wrong, as a sentence of ours: what a value must be, and what it is."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from tidemark.models.base.text import plural

UNKNOWN_FIELD = frozenset({"unexpected_keyword_argument", "extra_forbidden"})
"""Kinds of errors about a field that there is not."""

_MAX_VALUE = 60
"""How much of a value is repeated."""

_KINDS = {
    "missing": "it is missing",
    "missing_argument": "it is missing",
    "missing_keyword_only_argument": "it is missing",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "decimal_type": "it must be a number",
    "decimal_parsing": "it must be a number",
    "finite_number": "it must be a finite number",
    "string_type": "it must be a text",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
    "dict_type": "it must be an object with fields",
    "model_type": "it must be an object with fields",
    "dataclass_type": "it must be an object with fields",
    "dataclass_exact_type": "it must be an object with fields",
}
_LIMITS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_LENGTHS = {
    "too_short": ("min_length", "at least", "entry", "entries"),
    "too_long": ("max_length", "at most", "entry", "entries"),
    "string_too_short": ("min_length", "at least", "character", "characters"),
    "string_too_long": ("max_length", "at most", "character", "characters"),
}
_NOT_BLANK = r"\S"
"""The pattern of a text that is not blank."""


def sentence(error: ErrorDetails, names: Collection[str] = (), *, repeat: bool = True) -> str:
    """Return what is wrong with a value.

    Args:
        error: what pydantic found.
        names: names of the fields there are, where the error is about one that there is not.
        repeat: whether to repeat the value, which must then be no secret.
    """
    kind = error["type"]
    if kind in UNKNOWN_FIELD:
        return "there is no such field" + did_you_mean(str(error["loc"][-1]), names)
    if kind in {"value_error", "assertion_error"}:
        return error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    text = _must(kind, error.get("ctx") or {}) or _first_lower(error["msg"])
    value = error.get("input", {})  # a large one is left out
    if not repeat or kind.startswith("missing") or isinstance(value, dict | list):
        return text
    shown = "null" if value is None else repr(value)
    return f"{text}, not {shown if len(shown) <= _MAX_VALUE else f'{shown[:_MAX_VALUE]}...'}"


def did_you_mean(name: str, names: Collection[str], *, few: int = 6) -> str:
    """Return the question for the nearest of the names that there are, or else those names, at most a ``few``."""
    near = get_close_matches(name, names, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if not names:
        return ""
    shown = sorted(names)[:few]
    more = f" and {len(names) - few} more" if len(names) > few else ""
    return f"; there {'is only' if len(names) == 1 else 'are'} {', '.join(shown)}{more}"


def _must(kind: str, limits: dict[str, Any]) -> str | None:
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return f"it must be {words} {limits[name]:,}"
    if kind in _LENGTHS:
        name, words, one, many = _LENGTHS[kind]
        length = limits.get("actual_length")
        actual = "" if length is None else f", not {length:,}"
        return f"it must have {words} {plural(limits[name], one, many)}{actual}"
    if kind in {"literal_error", "enum"}:
        return f"it must be {limits['expected']}"
    if kind == "string_pattern_mismatch":
        pattern = limits["pattern"]
        return "it must not be blank" if pattern == _NOT_BLANK else f"it must match {pattern}"
    return _KINDS.get(kind)


def _first_lower(text: str) -> str:
    return text[:1].lower() + text[1:]
