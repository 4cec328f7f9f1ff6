"""Which bounds a query last worked with, and which of the controller's answers made it fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.messages import BoundAnswer, Pin
from tidemark.spark_jobs.bound import ChosenBound

_Key = tuple[str, str]


class ProvenBounds:
    """What is known of the bounds of one query's streams, by names of job and stream."""

    def __init__(self) -> None:
        self._worked: dict[_Key, ChosenBound] = {}
        self._failed: dict[_Key, tuple[int, Pin | None, int | None]] = {}

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
        found = []
        for key, chosen in bounds.items():
            good = self._worked.get(key)
            if chosen.answer is None or good is None or chosen.bound_ms == good.bound_ms:
                continue
            self._failed[key] = chosen.answer.generation, chosen.answer.pin, chosen.answer.bound_ms
            failed_for, worked = (format_duration(one.bound_ms * 1_000) for one in (chosen, good))
            found.append(
                f"{'/'.join(key)}: generation {chosen.answer.generation}, {failed_for}, failed and is not tried again; "
                f"{worked} is put back"
            )
        return found

    def has_failed(self, key: _Key, answer: BoundAnswer) -> bool:
        """Return whether ``answer`` is one that the query failed with."""
        return self._failed.get(key) == (answer.generation, answer.pin, answer.bound_ms)

    def held(self, newest: Callable[[_Key], BoundAnswer | None]) -> dict[_Key, ChosenBound]:
        """Return the bounds to hold at the next start: where the newest answer is one that failed.

        Args:
            newest: returns the newest answer for a stream; None when none is known.
        """
        return {
            key: replace(
                self._worked[key], reason=f"generation {generation} failed, and there is no newer one"
            )
            for key, (generation, *_) in self._failed.items()
            if key in self._worked and (answer := newest(key)) is not None and self.has_failed(key, answer)
        }

    def put_back(self, why: str) -> dict[_Key, ChosenBound]:
        """Return the bounds that last worked, for all streams."""
        return {key: replace(chosen, reason=f"put back: {why}") for key, chosen in self._worked.items()}
