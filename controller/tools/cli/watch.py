"""``--watch``: a command again and again, until Ctrl-C."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from time import sleep, time_ns
from typing import Annotated

import typer

from tidemark.controller.base.clock import utc_text
from tidemark.controller.tools.cli.options import duration_of

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")]
IntervalOption = Annotated[str, typer.Option("--interval", help="With --watch: time between two looks.")]
DEFAULT_INTERVAL = "2 s"

_LEAST_SECONDS = 0.1
_CLEAR = "\x1b[H\x1b[2J"
"""What makes a terminal empty."""


def seconds_of(interval: str) -> float:
    """Return the seconds of ``--interval``.

    Raises:
        ValueError: when it is no duration, or too short.
    """
    seconds = duration_of(interval, "--interval") / 1e6
    if seconds < _LEAST_SECONDS:
        raise ValueError(f"--interval {interval!r} is shorter than {_LEAST_SECONDS} s")
    return seconds


def again(show: Callable[[], None], seconds: float) -> None:
    """Call ``show`` every so many seconds until Ctrl-C: on a terminal in place, elsewhere when it says something new.

    A failure of the first time ends the command. Later ones do not: a controller that is being restarted comes back.
    """
    terminal, before = sys.stdout.isatty(), ""
    with suppress(KeyboardInterrupt):
        while True:
            screen = _Screen(terminal=terminal)
            with suppress(*([typer.Exit] if before else [])), redirect_stdout(screen):
                show()
            text = screen.getvalue()
            if text and text != before:
                looked = f"{utc_text(time_ns() // 1_000)}\n"
                typer.echo(f"{_CLEAR if terminal else ''}{looked}{text}", nl=False)
                before = text
            sleep(seconds)


class _Screen(io.StringIO):
    """Takes what is printed, as the terminal would that it is for."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Return whether a terminal will show it."""
        return self._terminal
