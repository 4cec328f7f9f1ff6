"""What a stream starts with, and the line that says so in the driver's log."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import cache, partial
from shlex import quote
from textwrap import shorten

from tidemark.models.duration import format_duration
from tidemark.models.wire import Mode
from tidemark.spark_jobs.core.bound import BoundCache, ChosenBound, choose_bound_at_start
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.connections import connection_to
from tidemark.spark_jobs.core.sender import Sender
from tidemark.spark_jobs.core.settings import JobSettings
from tidemark.spark_jobs.core.watch import BoundWatch, Orders, mode_of

_REASON_LENGTH = 200
"""Characters of the reason in the line that a job logs at its start; the status has all of it."""
_log = logging.getLogger("tidemark.spark")


@dataclass(frozen=True, slots=True)
class Start:
    """What a stream starts with, and where it hears of what comes after that."""

    client: ControllerClient | None
    """None for a job without a controller."""
    sender: Sender | None
    chosen: ChosenBound
    mode: Mode
    orders: Orders
    """What comes after that."""


def start_of(
    settings: JobSettings, own_bound_ms: int, ceiling_ms: int | None, mode: Mode, *, restarts: bool
) -> Start:
    """Ask for the bound of a stream.

    Args:
        settings: the stream's.
        own_bound_ms: the job's own bound, in milliseconds.
        ceiling_ms: its ceiling, in milliseconds; None where it cannot run in Live.
        mode: the job's own mode.
        restarts: whether another bound needs another start.
    """
    client, sender = connection_to(settings)
    cache = BoundCache(settings.cache_dir, settings.controller_url or "")
    chosen = choose_bound_at_start(
        settings.job,
        settings.stream,
        own_bound_ms,
        client,
        cache,
        settings.timeout_s,
        pin=settings.pin,
        ceiling_ms=ceiling_ms,
        restarts=restarts,
    )
    make_watch = None
    if client is not None:
        make_watch = partial(
            BoundWatch, client, settings.job, settings.stream, cache, wait_s=settings.watch_s
        )
    orders = Orders(chosen.answer, own_bound_ms, mode, settings.pin, make_watch)
    return Start(client, sender, chosen, mode_of(chosen.answer, mode), orders)


def announce(settings: JobSettings, start: Start, ceiling: str | None) -> None:
    """Say with which bound a stream runs and, with a controller, which command shows what the job still needs."""
    _print_or_log(
        f"tidemark: job={settings.job} stream={settings.stream} bound={format_duration(start.chosen.bound_ms * 1_000)} "
        f"source={start.chosen.source} generation={start.chosen.generation} mode={start.mode} ceiling={ceiling} "
        f"controller={settings.controller_url} ({shorten(start.chosen.reason, _REASON_LENGTH, placeholder=' ...')})"
    )
    if settings.controller_url is not None:
        _say_next(settings.job, settings.controller_url)


@cache
def _say_next(job: str, url: str) -> None:
    """Say it once in a process: a job has several streams, and may start its query again."""
    _print_or_log(f"tidemark: next: tidemark doctor {quote(job)} --url {quote(url)}")


def _print_or_log(line: str) -> None:
    """Log one line so that it is in the driver's log even if nobody configured Python's logging."""
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info(line)
    else:
        print(line, file=sys.stderr, flush=True)  # noqa: T201
