"""The bound at start: from the controller, else the last good answer on disk, else the job's own.

A job must start even when the controller is away (fail open), so nothing here raises for an outage. The whole answer is
on disk, including "no bound": an outage must not revive a bound that was withdrawn. A pin is a kill switch and goes
before everything else: first the job's own pin, then the controller's.

The runner needs to know which bounds a plan was built with, and may have to hold one that worked: ``collected_choices``
and ``held_bounds`` are for that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from tidemark.models.base.duration import format_duration
from tidemark.models.base.text import format_number
from tidemark.models.protocol.messages import BoundAnswer, BoundSource, Mode, Pin
from tidemark.spark_jobs.bound_cache import BoundCache
from tidemark.spark_jobs.client import ControllerClient
from tidemark.spark_jobs.settings import PIN_KEY


@dataclass(frozen=True, slots=True)
class ChosenBound:
    """The bound a run starts with."""

    bound_ms: int
    """The bound in milliseconds."""
    source: BoundSource
    """Where it came from."""
    generation: int | None
    """Its generation; None when it is the job's own."""
    mode: Mode
    """The mode in the controller's last answer; Off when there was none."""
    reason: str
    """Why this one, in one sentence."""
    answer: BoundAnswer | None = None
    """The controller's answer, from now or from disk; None when there is none or it was not asked."""
    pin: Pin | None = None
    """The pin, of the job or of the controller, that fixes the bound; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A bound that was chosen for a plan, and what it was chosen from."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    own_bound_ms: int
    """The job's own bound, in milliseconds."""
    ceiling_ms: int | None
    """The ceiling of a job that can run in Live, in milliseconds; None for none."""
    pin: Pin | None
    """The job's own pin, which no answer can undo."""
    client: ControllerClient | None
    """The controller; None when the job has none."""
    cache: BoundCache
    """Where the last good answers are."""
    chosen: ChosenBound
    """What was chosen."""

    @property
    def key(self) -> tuple[str, str]:
        """Names of the job and the stream."""
        return self.job, self.stream

    def by(self, answer: BoundAnswer) -> ChosenBound:
        """Return what would be chosen if ``answer`` were the controller's now."""
        if self.pin is not None:
            return self.chosen
        return _of(answer, "controller", (self.own_bound_ms, self.ceiling_ms), answer.reason)


_Key = tuple[str, str]
# Context variables, not module state: what one thread builds is neither another's to hold nor to collect.
_collected: ContextVar[tuple[list[Choice], ...]] = ContextVar("tidemark_collected_choices", default=())
_held: ContextVar[Mapping[_Key, ChosenBound] | None] = ContextVar("tidemark_held_bounds", default=None)


@contextmanager
def collected_choices() -> Iterator[list[Choice]]:
    """Collect every bound that is chosen within the context, in this thread: the list grows as plans are built.

    A context within a context takes nothing away from the outer one.
    """
    choices: list[Choice] = []
    token = _collected.set((*_collected.get(), choices))
    try:
        yield choices
    finally:
        _collected.reset(token)


@contextmanager
def held_bounds(bounds: Mapping[_Key, ChosenBound]) -> Iterator[None]:
    """Let the streams in ``bounds`` get the bound given there, not the controller's; in this thread only.

    Args:
        bounds: bounds to hold, by names of job and stream. The job's own pin still goes before them.
    """
    token = _held.set(dict(bounds))
    try:
        yield
    finally:
        _held.reset(token)


def choose_bound_at_start(  # noqa: PLR0917 - what a bound depends on
    job: str,
    stream: str,
    own_bound_ms: int,
    client: ControllerClient | None,
    cache: BoundCache,
    limit_s: float = 3.0,
    *,
    pin: Pin | None = None,
    ceiling_ms: int | None = None,
    restarts: bool = True,
) -> ChosenBound:
    """Return the bound to start with, within about ``limit_s`` seconds. Never raises: a job must start.

    The first of these that exists: the bound that the job's own pin fixes (then the controller is not asked), the one
    that ``held_bounds`` holds, the controller's answer, the last good answer on disk, the job's own bound. A pin in an
    answer is followed, too.

    Args:
        job: name of the job.
        stream: name of the stream.
        own_bound_ms: the job's own bound, in milliseconds.
        client: the controller; None when the job has none.
        cache: last good answers.
        limit_s: how long the controller may take, in seconds.
        pin: the job's own pin, from ``spark.tidemark.pin``.
        ceiling_ms: the ceiling of a job that can run in Live, in milliseconds: what the pin ``Ceiling`` holds it to.
        restarts: whether another bound needs another start; a stream that takes it at once is none of the runner's.
    """
    bounds_ms = own_bound_ms, ceiling_ms
    held = (_held.get() or {}).get((job, stream))
    if pin is not None:
        chosen = _pinned(pin, bounds_ms, PIN_KEY, None)
    elif held is not None:
        chosen = held
    else:
        chosen = _from_controller(client, cache, (job, stream), bounds_ms, limit_s)
    choice = Choice(
        job=job,
        stream=stream,
        own_bound_ms=own_bound_ms,
        ceiling_ms=ceiling_ms,
        pin=pin,
        client=client,
        cache=cache,
        chosen=chosen,
    )
    for choices in _collected.get() if restarts else ():
        choices.append(choice)
    return chosen


def chosen_by(answer: BoundAnswer, own_bound_ms: int) -> ChosenBound:
    """Return what the controller's ``answer`` makes of a job's own bound, where the job has neither pin nor ceiling."""
    return _of(answer, "controller", (own_bound_ms, None), answer.reason)


_BoundsMs = tuple[int, int | None]
"""The job's own bound and its ceiling."""


def _from_controller(
    client: ControllerClient | None, cache: BoundCache, key: _Key, bounds_ms: _BoundsMs, limit_s: float
) -> ChosenBound:
    """Return what the controller's answer gives, or the last good answer on disk."""
    if client is None:
        return ChosenBound(bounds_ms[0], "job", None, "Off", "no controller is set")
    answer, problem = _ask(client, *key, limit_s)
    if answer is None:
        last = cache.read(*key)
        if last is None:
            return ChosenBound(bounds_ms[0], "job", None, "Off", f"no answer and none on disk: {problem}")
        return _of(last, "disk", bounds_ms, f"the last good answer, because: {problem}")
    cache.write(answer)
    return _of(answer, "controller", bounds_ms, answer.reason)


def _ask(client: ControllerClient, job: str, stream: str, limit_s: float) -> tuple[BoundAnswer | None, str]:
    """Return the controller's answer, or None and why there is none."""
    got: list[BoundAnswer] = []
    problems = [f"{client.url} did not answer within {format_number(limit_s)} s"]

    def ask() -> None:
        try:
            got.append(client.bound(job, stream))
        except Exception as error:  # noqa: BLE001 - no fault of the network or its settings may stop the job
            problems.append(str(error) or type(error).__name__)

    # In a thread of its own, since the limit of a request does not hold for names and for answers that trickle.
    thread = threading.Thread(target=ask, name="tidemark-bound", daemon=True)
    thread.start()
    thread.join(limit_s + 0.5)
    return (got[0] if got else None), problems[-1]


def _of(answer: BoundAnswer, source: BoundSource, bounds_ms: _BoundsMs, reason: str) -> ChosenBound:
    if answer.pin is not None and answer.mode != "Off":
        chosen = _pinned(answer.pin, bounds_ms, "the controller", answer)
        return replace(chosen, reason=f"{chosen.reason} ({reason})")
    if answer.bound_ms is None or answer.mode == "Off":
        return ChosenBound(bounds_ms[0], "job", None, answer.mode, reason, answer, answer.pin)
    return ChosenBound(answer.bound_ms, source, answer.generation, answer.mode, reason, answer)


def _pinned(pin: Pin, bounds_ms: _BoundsMs, who: str, answer: BoundAnswer | None) -> ChosenBound:
    """Return the bound that a pin fixes: the job's own, or its ceiling where it has one."""
    own_ms, ceiling_ms = bounds_ms
    if pin == "Ceiling" and ceiling_ms is not None:
        bound_ms, what = ceiling_ms, "the ceiling"
    else:
        bound_ms, what = own_ms, "the job's own bound"
    bound = format_duration(bound_ms * 1_000)
    reason = f"pinned to {what} of {bound} by {who}: every window closes at least {bound} after its end"
    mode: Mode = "Off" if answer is None else answer.mode
    return ChosenBound(bound_ms, "job", None, mode, reason, answer, pin)
