"""When a running query restarts for a published bound: a rule over time, without Spark; and which bounds it can trust.

A wider bound is worth a restart soon, since rows are being lost: after a random part of a tenth of the cooldown, so
that jobs that share a slow source do not restart in the same second. A narrower one only saves latency and may be
withdrawn: it must stay published for a whole cooldown before that. There is at most one restart in a cooldown, in
either direction, and the newest bound is taken. A kill switch waits for nothing.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidemark.models.base.duration import format_duration
from tidemark.models.base.text import format_number
from tidemark.models.protocol.messages import BoundAnswer, Pin
from tidemark.spark_jobs.core.bound import Choice, ChosenBound, write_whole

DEFAULT_COOLDOWN_S = 300.0
"""Minimum time between two restarts, in seconds."""

_SPREAD = 0.1
"""Longest random wait before a restart, as a share of the cooldown."""

_MIN_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 3_600.0
_MAX_DOUBLINGS = 32


_log = logging.getLogger("tidemark.spark")
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A bound that was published for a stream and is not the one its plan has."""

    job: str
    stream: str
    before_ms: int
    """The bound in the plan, in milliseconds."""
    bound_ms: int
    """The bound that was published, in milliseconds."""
    generation: int
    """Generation of the answer that requires it."""
    pin: Pin | None
    """The pin that requires it; None: a recommendation does."""

    @property
    def key(self) -> tuple[str, str]:
        """Names of the job and the stream."""
        return self.job, self.stream

    def __str__(self) -> str:
        """Say it for a log."""
        bound, before = (format_duration(ms * 1_000) for ms in (self.bound_ms, self.before_ms))
        return (
            f"{self.job}/{self.stream}: generation {self.generation} asks for {bound} in place of {before}"
            + (f" (pin {self.pin})" if self.pin else "")
        )


def change_of(choice: Choice, answer: BoundAnswer) -> Change | None:
    """Return what ``answer`` would change in a plan with ``choice``; None when it requires no restart.

    Only mode ``Restart`` requires one, and only for a bound or a pin: an answer without a bound leaves the
    job what it has.
    """
    if answer.mode != "Restart" or (answer.bound_ms is None and answer.pin is None):
        return None
    required = choice.by(answer)
    if required.bound_ms == choice.chosen.bound_ms:
        return None
    job, stream = choice.key
    return Change(
        job=job,
        stream=stream,
        before_ms=choice.chosen.bound_ms,
        bound_ms=required.bound_ms,
        generation=answer.generation,
        pin=required.pin,
    )


@dataclass(frozen=True, slots=True)
class DueChange:
    """The change that a restart is for, and how long it has to wait."""

    change: Change
    """The change that is due first."""
    wait_s: float
    """How long it has to wait from now on, in seconds; 0 when it is due."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Since a change is wanted without a break in one direction."""

    narrower: bool
    due_s: float
    """When it has waited long enough."""


class RestartRule:
    """Decides when to restart. All times are in seconds of one clock that only grows.

    Args:
        cooldown_s: minimum time between two restarts, and how long a narrower bound must be published.
        restarted_s: when the query was last restarted; None: it was not.
        draw: returns a random number between 0 and 1.

    Raises:
        ValueError: when the cooldown is negative.
    """

    def __init__(
        self,
        cooldown_s: float = DEFAULT_COOLDOWN_S,
        restarted_s: float | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if cooldown_s < 0:
            raise ValueError(f"the cooldown must be at least 0 s, not {format_number(cooldown_s)} s")
        self._cooldown_s = cooldown_s
        self._draw = draw
        self._not_before_s = float("-inf") if restarted_s is None else restarted_s + cooldown_s
        self._wanted: dict[tuple[str, str], _Wanted] = {}
        self._failures = 0

    def first(self, changes: Sequence[Change], now_s: float) -> DueChange | None:
        """Return the change that is due first; None when there is none. To be called again and again."""
        self._wanted = {change.key: self._wanted_since(change, now_s) for change in changes}
        changes_due = [DueChange(change, max(self._due_s(change, now_s) - now_s, 0.0)) for change in changes]
        return min(changes_due, key=lambda one: one.wait_s, default=None)

    def restarted(self, now_s: float) -> None:
        """Note that the query was restarted."""
        self._not_before_s = now_s + self._cooldown_s

    def postponed(self, now_s: float) -> None:
        """Note that the query could not be ended; it runs on for a cooldown."""
        self._not_before_s = now_s + self._cooldown_s

    def worked(self) -> None:
        """Note that a new bound has brought a batch to its end."""
        self._failures = 0

    def failed(self, now_s: float) -> float:
        """Note that a new bound has failed; return how long the next one has to wait, in seconds.

        The wait doubles with each failure in a row, up to an hour, and is cut at random by up to a half.
        """
        self._failures += 1
        doubled_s = max(self._cooldown_s, _MIN_BACKOFF_S) * 2.0 ** min(self._failures, _MAX_DOUBLINGS)
        longest_s = min(doubled_s, max(self._cooldown_s, _LONGEST_BACKOFF_S))
        wait_s = longest_s * (1 - self._draw() / 2)
        self._not_before_s = now_s + wait_s
        return wait_s

    def _wanted_since(self, change: Change, now_s: float) -> _Wanted:
        narrower = change.bound_ms < change.before_ms
        before = self._wanted.get(change.key)
        if before is not None and before.narrower == narrower:
            return before
        waits_s = self._draw() * _SPREAD * self._cooldown_s
        return _Wanted(narrower, now_s + waits_s + (self._cooldown_s if narrower else 0.0))

    def _due_s(self, change: Change, now_s: float) -> float:
        if change.pin is not None:
            return now_s
        return max(self._wanted[change.key].due_s, self._not_before_s)


def write_marker(path: Path, change: Change, now_us: int) -> None:
    """Write the marker, whole or not at all; a marker that cannot be written is logged and stops nothing.

    It is one line of JSON: ``job`` and ``stream`` that the bound is of, its ``generation``, the bound and the one it
    replaces in milliseconds (``bound_ms``, ``before_ms``), and the wall time in microseconds since the epoch
    (``ended_us``).
    """
    marker = {
        "job": change.job,
        "stream": change.stream,
        "generation": change.generation,
        "bound_ms": change.bound_ms,
        "before_ms": change.before_ms,
        "ended_us": now_us,
    }
    try:
        write_whole(path, json.dumps(marker) + "\n")
    except OSError as error:
        _log.error("the marker %s cannot be written: %s", path, error)


class ProvenBounds:
    """What is known of the bounds of one query's streams, by names of job and stream."""

    def __init__(self) -> None:
        self._worked: dict[_Key, ChosenBound] = {}
        self._failed: dict[_Key, BoundAnswer] = {}

    def work(self, bounds: Mapping[_Key, ChosenBound]) -> bool:
        """Note that the query works with ``bounds``; return whether they are not the ones that worked before."""
        before, self._worked = self._worked, dict(bounds)
        return {key: chosen.bound_ms for key, chosen in before.items()} != {
            key: chosen.bound_ms for key, chosen in bounds.items()
        }

    def fail(self, bounds: Mapping[_Key, ChosenBound]) -> list[str]:
        """Note that the query fails with ``bounds``; return, for a log, which answers are to blame.

        Those are to blame whose bound is not the one that worked. When there are none, the bounds are not the cause.
        """
        blamed = []
        for key, chosen in bounds.items():
            good = self._worked.get(key)
            if chosen.answer is None or good is None or chosen.bound_ms == good.bound_ms:
                continue
            self._failed[key] = chosen.answer
            failed_for, worked = (format_duration(one.bound_ms * 1_000) for one in (chosen, good))
            blamed.append(
                f"{'/'.join(key)}: generation {chosen.answer.generation}, {failed_for}, failed and is not tried again; "
                f"{worked} is put back"
            )
        return blamed

    def has_failed(self, key: _Key, answer: BoundAnswer) -> bool:
        """Return whether ``answer`` is one that the query failed with."""
        failed = self._failed.get(key)
        # The reason and the mode may change under the same generation.
        return failed is not None and all(
            getattr(failed, name) == getattr(answer, name) for name in ("generation", "pin", "bound_ms")
        )

    def instead_of(self, key: _Key, answer: BoundAnswer) -> ChosenBound | None:
        """Return the bound that worked, where ``answer`` is one that failed; None where it may be taken."""
        if key not in self._worked or not self.has_failed(key, answer):
            return None
        why = f"generation {answer.generation} failed, and there is no newer one"
        return replace(self._worked[key], reason=why)

    def put_back(self, why: str) -> dict[_Key, ChosenBound]:
        """Return the bounds that last worked, for all streams."""
        return {key: replace(chosen, reason=f"put back: {why}") for key, chosen in self._worked.items()}
