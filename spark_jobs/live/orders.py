"""What a live stream has to do now: by its own pin, by the controller's newest answer, else by the job itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemark.models.live.fast import Order
from tidemark.models.protocol.messages import BoundAnswer, Mode, Pin
from tidemark.spark_jobs.watch import BoundWatch


def mode_of(answer: BoundAnswer | None, own: Mode) -> Mode:
    """Return the mode: the controller's once it has published anything, else the job's own."""
    return own if answer is None or not answer.generation else answer.mode


def order_of(answer: BoundAnswer | None, own_bound_ms: int, own_mode: Mode, own_pin: Pin | None) -> Order:
    """Return what a stream has to do by ``answer``, the controller's newest.

    Args:
        answer: the answer; None when the controller never answered.
        own_bound_ms: the job's own bound, in milliseconds.
        own_mode: the job's own mode.
        own_pin: the job's own pin, which goes before the controller's.
    """
    pin = own_pin or (None if answer is None else answer.pin)
    own_us = own_bound_ms * 1_000
    if pin is not None:
        return Order(follow="ceiling" if pin == "Ceiling" else "stream", bound_us=own_us, pin=pin)
    given_ms = None if answer is None else answer.bound_ms
    bound_us = own_us if given_ms is None else given_ms * 1_000
    mode = mode_of(answer, own_mode)
    if mode != "Live":
        return Order(follow="stream", bound_us=own_us if mode == "Off" else bound_us)
    envelope = None if answer is None else answer.envelope
    if envelope is None:
        return Order(bound_us=bound_us)
    return Order(
        bound_us=bound_us,
        target_ppm=envelope.target_ppm,
        latency_cap_us=_micros(envelope.latency_cap_ms),
        min_bound_us=_micros(envelope.min_bound_ms),
        max_bound_us=_micros(envelope.max_bound_ms),
    )


def _micros(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * 1_000


@dataclass(slots=True)
class Orders:
    """The orders of one stream, kept up to date by a watch while a query runs.

    Args:
        first: the controller's answer when the plan was built; None when there was none.
        own_bound_ms: the job's own bound, in milliseconds.
        own_mode: the job's own mode.
        own_pin: the job's own pin.
        make_watch: returns a watch that is not started; None for a job without a controller.
    """

    first: BoundAnswer | None
    own_bound_ms: int
    own_mode: Mode
    own_pin: Pin | None
    make_watch: Callable[[], BoundWatch] | None = None
    _watch: BoundWatch | None = None
    _running: int = 0

    def started(self) -> None:
        """Begin to watch with the first query that runs the plan."""
        self._running += 1
        if self._watch is None and self.make_watch is not None:
            self._watch = self.make_watch()
            self._watch.start()

    def ended(self) -> None:
        """Close the watch when no query runs the plan any more."""
        self._running -= 1
        if self._running <= 0 and self._watch is not None:
            self.first = self._watch.latest or self.first
            self._watch.close()
            self._watch = None

    @property
    def newest(self) -> BoundAnswer | None:
        """The controller's newest answer; None when there is none."""
        latest = None if self._watch is None else self._watch.latest
        return latest or self.first

    def now(self) -> Order:
        """Return what the stream has to do now."""
        return order_of(self.newest, self.own_bound_ms, self.own_mode, self.own_pin)

    def last_contact_us(self) -> int | None:
        """Return the wall time of the controller's last answer in microseconds; None when there was none."""
        return None if self._watch is None else self._watch.last_contact_us
