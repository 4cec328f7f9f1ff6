"""The watch: one daemon thread that always has the controller's newest answer for a stream; and what follows from it.

It asks again and again for an answer other than the one it holds. A controller that supports it holds the request until
there is one. Nothing waits for the watch: while the controller is away the newest answer stays what it was, and only
its age grows. Each pause is a random share of its maximum, so that a fleet of jobs does not call all at once, above all
not a controller that has just come back.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tenacity import RetryCallState, Retrying, wait_random_exponential
from tenacity.stop import stop_when_event_set

from tidemark.models.protocol.messages import BoundAnswer, Mode, Pin
from tidemark.spark_jobs.core.bound import BoundCache, Choice
from tidemark.spark_jobs.core.client import ControllerClient

_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_SHARE = 0.1
"""A request that comes back unchanged within this share of the wait was not held by the controller: then the pause is
up to the whole wait, else up to this share of it."""

_log = logging.getLogger("tidemark.spark")


class BoundWatch:
    """Watches the answer for one stream.

    Args:
        cache: each new answer is written there before ``latest`` returns it, so that an outage finds it on disk.
        wait_s: how long the controller may hold a request, in seconds; one that does not hold requests is asked about
            twice in that time.
        longest_wait_s: longest pause between two tries while the controller is away, in seconds.
        clock_us: returns the wall time in microseconds since the epoch.
        monotonic: returns a time in seconds that only grows.
        sleep: waits so many seconds; returns early when the watch is closed, unless given.
        draw: returns a random number between 0 and its argument.
    """

    def __init__(
        self,
        client: ControllerClient,
        job: str,
        stream: str,
        cache: BoundCache,
        *,
        wait_s: float = 30.0,
        longest_wait_s: float = _LONGEST_WAIT_S,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1_000,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        draw: Callable[[float], float] = lambda longest: random.uniform(0, longest),  # noqa: S311 - no secret
    ) -> None:
        self._client = client
        self._job, self._stream = job, stream
        self._cache = cache
        self._wait_s = wait_s
        self._longest_wait_s = longest_wait_s
        self._clock_us = clock_us
        self._monotonic = monotonic
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._draw = draw
        self._news = threading.Condition()
        self._latest: BoundAnswer | None = None
        self._last_contact_us: int | None = None
        self._etag: str | None = None
        self._trouble: type[BaseException] | None = None
        self._thread = threading.Thread(target=self._run, name=f"tidemark-watch-{stream}", daemon=True)

    @property
    def latest(self) -> BoundAnswer | None:
        """The newest answer; None before the first."""
        return self._latest

    @property
    def last_contact_us(self) -> int | None:
        """Wall time of the controller's last answer, "nothing new" included, in microseconds; None before the first."""
        return self._last_contact_us

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """End the watch. It does not wait for a request that is under way; what that one brings is not used."""
        self._closed.set()
        with self._news:
            self._news.notify_all()

    def wait_for(self, newer_than: int | None, timeout_s: float) -> BoundAnswer | None:
        """Wait until there is an answer of another generation than ``newer_than`` and return it.

        Args:
            newer_than: generation that the caller knows; None for any answer.
            timeout_s: how long to wait, in seconds; then, or when the watch is closed, None is returned.
        """

        def there_is() -> bool:
            return self._latest is not None and self._latest.generation != newer_than

        with self._news:
            self._news.wait_for(lambda: there_is() or self._closed.is_set(), timeout_s)
            return self._latest if there_is() else None

    # -- on the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        retrying = Retrying(
            wait=wait_random_exponential(_FIRST_WAIT_S, self._longest_wait_s),
            stop=stop_when_event_set(self._closed),
            sleep=self._pause,
            before_sleep=self._log_trouble,
            reraise=True,
        )
        while not self._closed.is_set():
            try:
                pause_s = retrying(self._tick)
            except Exception:  # noqa: BLE001 - closed in the middle of an outage; every other error is tried again
                return
            self._pause(self._draw(pause_s))

    def _pause(self, seconds: float) -> None:
        self._sleep(seconds)

    def _tick(self) -> float:
        """Ask once; return how long the pause after it may be, in seconds."""
        began = self._monotonic()
        news = self._client.watch(self._job, self._stream, self._etag, self._wait_s)
        if self._closed.is_set():
            return 0.0
        if self._trouble is not None:
            self._trouble = None
            _log.warning("%s answers again: %s/%s is watched", self._client.url, self._job, self._stream)
        waited = self._monotonic() - began >= _SHARE * self._wait_s
        return self._wait_s * (_SHARE if self._take(news) or waited else 1.0)

    def _take(self, news: tuple[BoundAnswer, str | None] | None) -> bool:
        """Take the controller's answer; return whether it is new."""
        before = self._latest
        answer = None if news is None or news[0] == before else news[0]
        if answer is not None:
            # On disk first: whoever acts on an answer must find the same one there when the controller is away.
            self._cache.write(answer)
        with self._news:
            self._last_contact_us = self._clock_us()
            if news is not None:
                self._latest, self._etag = news
            self._news.notify_all()
        if answer is None:
            return False
        if before is not None and answer.generation < before.generation:
            _log.warning(
                "%s/%s: the controller went back from generation %d to %d (was its store restored?); it is followed",
                self._job,
                self._stream,
                before.generation,
                answer.generation,
            )
        return True

    def _log_trouble(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        # Once for each kind: a rejected token after an outage is news, the same outage a minute later is not.
        if error is not None and type(error) is not self._trouble:
            self._trouble = type(error)
            _log.warning(
                "%s/%s: the newest bound is not known, the last one stays in use and the request is repeated: %s",
                self._job,
                self._stream,
                str(error) or type(error).__name__,
            )


def watch_of(choice: Choice) -> BoundWatch:
    """Return a watch, not started, of a choice's stream, which has a controller."""
    assert choice.client is not None
    wait_s = choice.settings.watch_seconds
    return BoundWatch(choice.client, *choice.key, choice.cache, wait_s=wait_s)


def mode_of(answer: BoundAnswer | None, own: Mode) -> Mode:
    """Return the mode: the controller's once it has published anything, else the job's own."""
    return own if answer is None or not answer.generation else answer.mode


@dataclass(slots=True)
class Orders:
    """What one stream has to do: the controller's newest answer, watched while a query runs, and what is the job's own.

    Args:
        first: the controller's answer when the plan was built; None when there was none.
        own_bound_ms: the job's own bound, in milliseconds.
        own_mode: the job's own mode.
        own_pin: the job's own pin, which goes before the controller's.
        make_watch: returns a watch that is not started; None for a job without a controller.
    """

    first: BoundAnswer | None
    own_bound_ms: int
    own_mode: Mode
    own_pin: Pin | None
    make_watch: Callable[[], BoundWatch] | None = None
    _watch: BoundWatch | None = field(default=None, init=False)
    _runs: set[str] = field(default_factory=set, init=False)
    """The runs that have the plan."""

    def started(self, run_id: str) -> None:
        """Begin to watch with the first run that has the plan."""
        self._runs.add(run_id)
        if self._watch is None and self.make_watch is not None:
            self._watch = self.make_watch()
            self._watch.start()

    def ended(self, run_id: str) -> None:
        """Close the watch when no run has the plan any more."""
        self._runs.discard(run_id)
        if not self._runs and self._watch is not None:
            self.first = self._watch.latest or self.first
            self._watch.close()
            self._watch = None

    @property
    def newest(self) -> BoundAnswer | None:
        """The controller's newest answer; None when there is none."""
        latest = None if self._watch is None else self._watch.latest
        return latest or self.first

    def last_contact_us(self) -> int | None:
        """Return the wall time of the controller's last answer in microseconds; None when there was none."""
        return None if self._watch is None else self._watch.last_contact_us
