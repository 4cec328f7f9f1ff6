"""How the texts of options are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import click

from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.models.base.target import PPM
from tidemark.models.specs.words import read_duration, read_share

T = TypeVar("T")


def duration_of(text: str, option: str) -> int:
    """Return the microseconds of a duration; a bare number is in seconds.

    Raises:
        ValueError: when it is not a duration.
    """
    return read_option(parse_duration, with_unit(text), option)


def milliseconds_of(text: str, option: str) -> int | None:
    """Return the whole milliseconds of a duration; None for "none"; a bare number is in seconds.

    Raises:
        ValueError: when it is not a duration, or finer than a millisecond.
    """
    return read_option(read_duration, with_unit(text), option)


def confidence_of(text: str) -> int | None:
    """Return the confidence in parts per million; None for "none".

    Raises:
        ValueError: when it is no share between 0 and 1.
    """
    share = read_option(read_share, text, "--confidence")
    if share is not None and not 0 < share < PPM:
        raise ValueError(f"--confidence {text!r} must lie between 0 and 1, both excluded")
    return share


def read_option(read: Callable[[str], T], text: str, option: str) -> T:
    """Return what ``read`` makes of the text of an option.

    Raises:
        ValueError: when it cannot be read; the message names the option.
    """
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def bounds_of(text: str, option: str, tick_us: int) -> list[int]:
    """Return bounds in microseconds, ascending, from a text such as "0,2s,5s".

    Raises:
        ValueError: when one is not a duration, negative, or not a multiple of ``tick_us``.
    """
    bounds = sorted({duration_of(part, option) for part in text.split(",")})
    for bound in bounds:
        if bound < 0 or bound % tick_us:
            raise ValueError(
                f"{option}: {format_duration(bound)}: a bound is at least 0 and, for Spark, of whole milliseconds"
            )
    return bounds


def operator_of(window: str, slide: str | None, session_gap: str | None = None) -> Operator:
    """Return the operator that the options name.

    Raises:
        ValueError: when a duration is not valid, or the options exclude each other.
    """
    if session_gap is not None:
        return read_option(session, with_unit(session_gap), "--session-gap")
    size = with_unit(window)
    if not duration_of(window, "--window"):
        if slide is not None:
            raise ValueError("--slide needs a --window above 0")
        return row_level()
    if slide is None:
        return read_option(tumbling, size, "--window")
    return read_option(lambda text: sliding(size, text), with_unit(slide), "--slide")


def with_unit(text: str) -> str:
    """Return the duration; a bare number gets the unit s, and that is said unless it is 0."""
    if not re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text):
        return text
    if float(text):
        click.echo(f"tidemark: {text.strip()} is read as {text.strip()} s: it has no unit", err=True)
    return f"{text}s"
