"""The arguments of the public calls, each checked as the call is made: what may be given, and what to write.

``checked`` binds a call's arguments to their names and looks each up in ``RULES``, so that one name means one thing in
every call. A parameter without a rule cannot be added: the module that has it would not load. The rules of a job's
settings stand in the table of ``settings``.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from pyspark.sql.types import StructType

from tidemark.models.base.operators import Operator
from tidemark.models.base.ranges import MAX_VALUE_LENGTH

Treatment = Literal["clamp", "aside"]
"""What becomes of a future-dated row: its event time is set back to the clock, or it is taken out of the stream."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class WrongValueError(ValueError):
    """A value that cannot be used.

    Args:
        name: the argument, or the conf key, that it was given for.
        why: why it cannot be used, and what would do.
        instead: what to write into a call, where that says it better.
    """

    def __init__(self, name: str, why: str, instead: str = "") -> None:
        super().__init__(why + instead)
        self.name, self.why = name, why


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be given for a parameter."""

    what: str
    """What it must be, as a noun phrase."""
    fits: Callable[[Any], bool]
    """Whether a value may be given."""
    example: str | None = None
    """What to write, as code."""
    choices: tuple[str, ...] = ()
    """All that may be given, where that is a list of words; the one nearest to what was given is the example."""

    of_text: Callable[[str], object] = str
    """Returns what a text of the conf stands for; the text itself where it stands for nothing that may be given."""
    make: Callable[[Any], object] = lambda value: value
    """Returns what a job works with; ``ValueError`` for a value that cannot be read."""

    def or_none(self) -> Rule:
        """Return the rule of a parameter that may be left out."""
        return replace(self, fits=lambda value: value is None or self.fits(value))

    def made_of(self, name: str, value: object) -> Any:
        """Return what a job works with where ``value`` is given for the parameter ``name``.

        Raises:
            WrongValueError: when it may not be given.
        """
        self.check(name, value)
        try:
            return self.make(value)
        except ValueError as error:
            raise WrongValueError(name, f"{name}: {error}") from None

    def check(self, name: str, value: object) -> None:
        """Raise unless ``value`` may be given for the parameter ``name``.

        Raises:
            WrongValueError: when it may not.
        """
        if self.fits(value):
            return
        nearest = {choice.lower(): f'"{choice}"' for choice in self.choices}
        close = get_close_matches(str(value).strip().lower(), nearest, 1)
        example = nearest[close[0]] if close else self.example
        instead = "" if example is None else f": write {name}={example}"
        raise WrongValueError(name, f"{name} is {value!r}; it must be {self.what}", instead)


def text(what: str, example: str | None = None, longest: int | None = None) -> Rule:
    """Return the rule of a parameter that takes a text."""
    return Rule(
        what,
        lambda value: (
            isinstance(value, str) and bool(value.strip()) and (longest is None or len(value) <= longest)
        ),
        None if example is None else f'"{example}"',
    )


def one_of(literal: object) -> Rule:
    """Return the rule of a parameter that takes one of the words of a ``Literal``; in the conf in whatever case."""
    words: tuple[str, ...] = get_args(literal)
    *others, last = words
    by_lower = {word.lower(): word for word in words}
    return Rule(
        f"{', '.join(others)} or {last}",
        lambda value: isinstance(value, str) and value in words,
        choices=words,
        of_text=lambda text: by_lower.get(text.strip().lower(), text),
    )


def instance(kinds: type | tuple[type, ...], what: str, example: str | None = None) -> Rule:
    """Return the rule of a parameter that takes an object of some classes."""
    return Rule(what, lambda value: isinstance(value, kinds), example)


def number(what: str, least: float, most: float | None = None, *, whole: bool = False) -> Rule:
    """Return the rule of a parameter that takes a number within bounds."""

    def fits(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            return False
        return value >= least and (most is None or value <= most)

    def of_text(text: str) -> object:
        try:
            return int(text) if whole else float(text)
        except ValueError:
            return text

    return Rule(what, fits, of_text=of_text)


def up_to(most: int) -> Rule:
    """Return the rule of a parameter that takes a whole number from 1 on."""
    return number(f"a whole number, at least 1 and at most {most:,}", 1, most, whole=True)


def function(what: str) -> Rule:
    """Return the rule of a parameter that takes a function."""
    return Rule(what, callable)


INTERVAL = text("an interval as text", "10 minutes")
FLAG = Rule(
    "True or False",
    lambda value: isinstance(value, bool),
    of_text=lambda text: {"true": True, "false": False}.get(text.strip().lower(), text),
)
FILE = replace(instance((str, os.PathLike), "a file's path"), make=Path)
DIMENSION = text(
    f"the name of a column, of at most {MAX_VALUE_LENGTH} characters", "region", MAX_VALUE_LENGTH
)
_SECONDS = number("a number of seconds, at least 0", 0)

RULES: Mapping[str, Rule] = {
    "allowance": INTERVAL,
    "arrival_time": replace(
        text("the name of a column, or None", "timestamp").or_none(),
        of_text=lambda text: None if text == "None" else text,
    ),
    "batches_per_read": number("a whole number, at least 1", 1, whole=True),
    "build": function("a function that starts the query and returns it"),
    "cooldown_s": _SECONDS,
    "df": Rule("a DataFrame", lambda value: hasattr(value, "sparkSession")),
    "dimension": DIMENSION.or_none(),
    "end": text("the name of the column with the window's end", "window.end"),
    "event_time": text("the name of a column", "ts"),
    "exit_on_new_bound": FLAG,
    "folder": text("a path or URI of a folder for the late rows", "/data/late/clicks"),
    "format": text("the format of the source", "kafka").or_none(),
    "grace": text("an interval as text", "1 hour"),
    "keep": FLAG,
    "keys": Rule(
        "names of columns", lambda value: all(isinstance(key, str) and key.strip() for key in value)
    ),
    "marker": FILE.or_none(),
    "operator": instance(
        get_args(Operator),
        "what tumbling(size), sliding(size, slide), session(gap) or row_level() returns, or None",
        'tumbling("1 minute")',
    ).or_none(),
    "options": Rule(
        "a mapping of texts to texts",
        lambda value: isinstance(value, Mapping) and all(isinstance(item, str) for item in value),
    ).or_none(),
    "parse": function("the function that makes rows of the source's columns"),
    "patience_s": _SECONDS,
    "query": Rule("a running query", lambda value: hasattr(value, "runId")),
    "schema": instance(StructType, "a StructType").or_none(),
    "sink": Rule(
        "an object with the methods report and acknowledge",
        lambda value: (
            callable(getattr(value, "report", None)) and callable(getattr(value, "acknowledge", None))
        ),
    ).or_none(),
    "source": text("the place of a source in the plan, or its name", "0").or_none(),
    "stream": text("the name of a stream", "clicks").or_none(),
    "timeout_s": number("a number of seconds", float("-inf")),
    "upsert": function("the function that writes the versions of a batch"),
    "window": text("the name of the column with the window, or with its end", "window"),
}
"""By the name of a parameter what may be given for it, in every public call that has it."""


def checked(**more: Rule) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that checks the arguments of each call.

    Args:
        more: rules of parameters that only this call has, or whose classes ``RULES`` cannot know.

    Raises:
        KeyError: by the decorator, for a parameter that has no rule.
    """

    def decorate(call: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(call)
        all_rules = {**RULES, **more}
        rules = {name: all_rules[name] for name in signature.parameters if name != "self"}

        @functools.wraps(call)
        def check_and_call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                arguments = signature.bind(*args, **kwargs).arguments
            except TypeError:  # the call says so itself, with its name
                return call(*args, **kwargs)
            for name, rule in rules.items():
                if name in arguments:
                    rule.check(name, arguments[name])
            return call(*args, **kwargs)

        return check_and_call

    return decorate
