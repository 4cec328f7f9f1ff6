"""How far long work is, on standard error: in place on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import click

_SECONDS, _SECONDS_IN_PLACE = 10.0, 0.2
"""Time between two looks, so that short runs say nothing."""
_CLEAR = "\r\x1b[K"


@contextmanager
def progress(
    unit: str = "rows", total: int | None = None, clock: Callable[[], float] = monotonic
) -> Iterator[Callable[[str, int], None]]:
    """Say how far pieces of work are; yields a function that takes the name of one and how much of it is done.

    Args:
        unit: what is counted, in the plural.
        total: how many there are; None where that is not known.
        clock: gives seconds.
    """
    in_place = sys.stderr.isatty()
    of, said_at = "" if total is None else f" of {total:,}", clock()

    def progressed(what: str, done: int) -> None:
        nonlocal said_at
        if clock() - said_at >= (_SECONDS_IN_PLACE if in_place else _SECONDS):
            said_at = clock()
            line = f"{what}: {done:,}{of} {unit}"
            click.echo(f"{_CLEAR}{line}" if in_place else line, err=True, nl=not in_place)

    try:
        yield progressed
    finally:
        if in_place:
            click.echo(_CLEAR, err=True, nl=False)
