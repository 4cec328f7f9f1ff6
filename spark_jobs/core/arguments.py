"""The arguments of the public calls, each checked as the call is made: what may be given, and what to write.

``checked`` binds a call's arguments to their names and looks each up in ``RULES``, so that one name means one thing in
every call. A parameter without a rule cannot be added: the module that has it would not load.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from pyspark.sql.types import StructType

from tidemark.models.base.duration import format_duration, parse_delay, parse_duration
from tidemark.models.base.granules import default_granule_us
from tidemark.models.base.operators import Operator
from tidemark.models.base.ranges import MAX_VALUE_LENGTH
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs.core.tap import MAX_KEYS

GRANULE_US = 1_000_000
"""Granule of a stream whose operator is read from the plan: it divides every window of whole seconds."""

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

    def or_none(self) -> Rule:
        """Return the rule of a parameter that may be left out."""
        return Rule(self.what, lambda value: value is None or self.fits(value), self.example, self.choices)

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
    """Return the rule of a parameter that takes one of the words of a ``Literal``."""
    words: tuple[str, ...] = get_args(literal)
    *others, last = words
    what = f"{', '.join(others)} or {last}"
    return Rule(what, lambda value: isinstance(value, str) and value in words, choices=words)


def instance(kinds: type | tuple[type, ...], what: str, example: str | None = None) -> Rule:
    """Return the rule of a parameter that takes an object of some classes."""
    return Rule(what, lambda value: isinstance(value, kinds), example)


def number(what: str, least: float, most: float | None = None, *, whole: bool = False) -> Rule:
    """Return the rule of a parameter that takes a number within bounds."""

    def fits(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            return False
        return value >= least and (most is None or value <= most)

    return Rule(what, fits)


def function(what: str) -> Rule:
    """Return the rule of a parameter that takes a function."""
    return Rule(what, callable)


_COLUMN = text("the name of a column", "ts")
_INTERVAL = text("an interval as text", "10 minutes")
_FLAG = instance(bool, "True or False")
_FILE = instance((str, os.PathLike), "a file's path")
_SECONDS = number("a number of seconds, at least 0", 0)

RULES: Mapping[str, Rule] = {
    "arrival_time": text("the name of a column, or None", "timestamp").or_none(),
    "allowance": _INTERVAL,
    "batches_per_read": number("a whole number, at least 1", 1, whole=True),
    "bound": _INTERVAL,
    "build": function("a function that starts the query and returns it"),
    "ceiling": text("an interval as text", "2 hours").or_none(),
    "close_at_end": Rule(
        "True, False or an interval as text",
        lambda value: isinstance(value, bool) or _INTERVAL.fits(value),
        "True",
    ).or_none(),
    "controller_url": text("an address", "http://localhost:8642").or_none(),
    "cooldown_s": _SECONDS,
    "df": Rule("a DataFrame", lambda value: hasattr(value, "sparkSession")),
    "dimension": text(
        f"the name of a column, of at most {MAX_VALUE_LENGTH} characters", "region", MAX_VALUE_LENGTH
    ).or_none(),
    "end": text("the name of the column with the window's end", "window.end"),
    "event_time": _COLUMN,
    "exit_on_new_bound": _FLAG,
    "folder": text("a path or URI of a folder for the late rows", "/data/late/clicks"),
    "format": text("the format of the source", "kafka").or_none(),
    "future_allowance": text("an interval as text", "1 minute"),
    "future_rows": one_of(Treatment),
    "grace": text("an interval as text", "1 hour"),
    "granule": text("an interval as text", "1 second").or_none(),
    "idle_timeout": text("an interval as text", "1 minute").or_none(),
    "job": text("the name of the job", "shop").or_none(),
    "keep": _FLAG,
    "keys": Rule(
        "names of columns", lambda value: all(isinstance(key, str) and key.strip() for key in value)
    ),
    "marker": _FILE.or_none(),
    "max_keys": number(f"a whole number, at least 1 and at most {MAX_KEYS}", 1, MAX_KEYS, whole=True),
    "mode": one_of(Mode),
    "operator": instance(
        get_args(Operator),
        "what tumbling(size), sliding(size, slide), session(gap) or row_level() returns, or None",
        'tumbling("1 minute")',
    ).or_none(),
    "options": Rule(
        "a mapping of texts to texts",
        lambda value: isinstance(value, Mapping) and all(isinstance(each, str) for each in value),
    ).or_none(),
    "parse": function("the function that makes rows of the source's columns"),
    "partition": text("the name of a column, or None", "partition").or_none(),
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
    "stream": text("the name of the stream", "clicks").or_none(),
    "timeout_s": number("a number of seconds", float("-inf")),
    "token_file": _FILE.or_none(),
    "upsert": function("the function that writes the versions of a batch"),
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
        known = {**RULES, **more}
        rules = {name: known[name] for name in signature.parameters if name != "self"}

        @functools.wraps(call)
        def check_and_call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:  # the call says so itself, with its name
                return call(*args, **kwargs)
            for name, rule in rules.items():
                if name in given:
                    rule.check(name, given[name])
            return call(*args, **kwargs)

        return check_and_call

    return decorate


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations in a call of ``adaptive_watermark``."""

    bound: str
    ceiling: str | None
    """The ceiling, as the bound; None without one."""
    granule_us: int
    allowance_us: int
    idle_timeout_us: int | None


def durations_of(
    *,
    bound: str,
    ceiling: str | None,
    operator: Operator | None,
    granule: str | None,
    future_allowance: str,
    idle_timeout: str | None,
) -> Durations:
    """Return the durations in a call, whose arguments these are.

    Raises:
        WrongValueError: when one cannot be read, or they do not go together.
    """
    bound_ms = _delay_ms("bound", bound)
    ceiling_ms = None if ceiling is None else _delay_ms("ceiling", ceiling)
    if bound_ms is not None and ceiling_ms is not None:
        check_ceiling(ceiling_ms, bound_ms)
    return Durations(
        bound=bound if bound_ms is None else f"{bound_ms} milliseconds",
        ceiling=ceiling if ceiling_ms is None else f"{ceiling_ms} milliseconds",
        granule_us=granule_of(granule, operator),
        allowance_us=_whole_ms("future_allowance", future_allowance) * 1_000,
        idle_timeout_us=None if idle_timeout is None else _whole_ms("idle_timeout", idle_timeout) * 1_000,
    )


def check_ceiling(ceiling_ms: int, bound_ms: int) -> None:
    """Raise if a ceiling would close windows before the bound does.

    Raises:
        WrongValueError: when it would.
    """
    if ceiling_ms < bound_ms:
        raise WrongValueError(
            "ceiling",
            f"ceiling {format_duration(ceiling_ms * 1_000)} is below the bound {format_duration(bound_ms * 1_000)}: "
            "it would close windows before the bound does; it must exceed the bound by as much as partitions are apart",
        )


def _delay_ms(name: str, given: str) -> int | None:
    """Return a delay in milliseconds; None where only Spark can read it: a range in SQL's quotes."""
    try:
        return parse_delay(given)
    except ValueError as error:
        if "'" in given:
            return None
        raise WrongValueError(name, f"{name}: {error}") from None


def _whole_ms(name: str, given: str) -> int:
    given_us = _duration_us(name, given)
    if given_us < 0 or given_us % 1_000:
        raise WrongValueError(name, f"{name} {given!r} must be at least 0 and in whole milliseconds")
    return given_us // 1_000


def _duration_us(name: str, given: str) -> int:
    try:
        return parse_duration(given)
    except ValueError as error:
        raise WrongValueError(name, f"{name}: {error}") from None


def granule_of(granule: str | None, operator: Operator | None) -> int:
    """Return the width of the tap's granules in microseconds.

    Raises:
        WrongValueError: when it cannot be read, or the rows of one may belong to different windows of the operator.
    """
    if granule is None:
        return GRANULE_US if operator is None else default_granule_us(operator)
    granule_us = _duration_us("granule", granule)
    if granule_us <= 0 or granule_us % 1_000:
        shown = format_duration(granule_us)
        raise WrongValueError("granule", f"granule {shown} must be a positive number of whole milliseconds")
    if operator is not None and not operator.granule_fits(granule_us):
        raise WrongValueError(
            "granule",
            f"granule {format_duration(granule_us)} must divide size, slide and start of the {operator}, "
            "else rows of one granule would belong to different windows",
        )
    return granule_us
