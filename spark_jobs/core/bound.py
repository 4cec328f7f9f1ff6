"""The bound at start: from the controller, else its last good answer on disk, else the job's own.

A job must start even when the controller is away (fail open), so nothing here raises for an outage. The whole answer is
on disk, including "no bound": an outage must not revive a bound that was withdrawn. A pin is a kill switch and goes
before everything else: first the job's own pin, then the controller's.

The runner hears from its watch what the controller answers: it hands the bounds to the start that it makes, and gets to
know which ones the plan was built with (``starting``).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.messages import BoundAnswer, BoundSource, Mode, Pin
from tidemark.spark_jobs.core.client import ControllerClient, read_answer
from tidemark.spark_jobs.core.settings import JobSettings

_log = logging.getLogger("tidemark.spark")
_Key = tuple[str, str]


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, folders included, in one step: whoever reads it finds the old or the new text.

    Raises:
        OSError: when it cannot be written; then the old text is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class BoundCache:
    """The last good answer of each stream of a controller, in one small file each.

    Args:
        folder: where the files are; made when first written.
        controller_url: address of the controller; staging's answers are not production's.
    """

    def __init__(self, folder: Path, controller_url: str = "") -> None:
        self._folder = folder / hashlib.sha256(controller_url.encode()).hexdigest()[:16]

    def read(self, job: str, stream: str) -> BoundAnswer | None:
        """Return the last good answer; None when there is none or it cannot be read."""
        path = self._path(job, stream)
        try:
            return read_answer(json.loads(path.read_text()), str(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning("the last good bound in %s cannot be read: %s", path, error)
            return None

    def write(self, answer: BoundAnswer) -> None:
        """Write ``answer``; the file is replaced in one step, so a killed driver leaves the old or the new one."""
        path = self._path(answer.job, answer.stream)
        try:
            write_whole(path, json.dumps(asdict(answer)))
        except OSError as error:
            _log.warning("the bound cannot be written to %s: %s", path, error)

    def _path(self, job: str, stream: str) -> Path:
        return self._folder / quote(job, safe="") / f"{quote(stream, safe='')}.json"


@dataclass(frozen=True, slots=True)
class ChosenBound:
    """The bound a run starts with, or that is in force in a batch."""

    bound_ms: int
    source: BoundSource = "job"
    generation: int | None = None
    """Its generation; None when it is the job's own."""
    mode: Mode = "Off"
    """The mode in the controller's last answer; without one Off, or the job's own mode once a stream starts with it."""
    reason: str = ""
    """Why this one, in one sentence."""
    answer: BoundAnswer | None = None
    """The controller's answer, from now or from disk; None when there is none or it was not asked."""
    pin: Pin | None = None
    """The pin, of the job or of the controller, that fixes the bound; None for none."""


@dataclass(frozen=True, slots=True)
class OwnBounds:
    """What is the job's own, in milliseconds."""

    bound_ms: int
    ceiling_ms: int | None = None
    """The ceiling of a job that can run in Live, to which the pin ``Ceiling`` holds it; None for none."""

    def by(
        self, answer: BoundAnswer, source: BoundSource = "controller", reason: str | None = None
    ) -> ChosenBound:
        """Return what the controller's ``answer`` makes of them, where the job has no pin of its own."""
        reason = reason or answer.reason
        if answer.pin is not None and answer.mode != "Off":
            chosen = self.pinned(answer.pin, "the controller", answer)
            return replace(chosen, reason=f"{chosen.reason} ({reason})")
        if answer.bound_ms is None or answer.mode == "Off":
            return ChosenBound(self.bound_ms, "job", None, answer.mode, reason, answer, answer.pin)
        return ChosenBound(answer.bound_ms, source, answer.generation, answer.mode, reason, answer)

    def pinned(self, pin: Pin, who: str, answer: BoundAnswer | None = None) -> ChosenBound:
        """Return the bound that a pin fixes: the job's own, or its ceiling where it has one."""
        bound_ms, what = self.bound_ms, "the job's own bound"
        if pin == "Ceiling" and self.ceiling_ms is not None:
            bound_ms, what = self.ceiling_ms, "the ceiling"
        bound = format_duration(bound_ms * 1_000)
        reason = f"pinned to {what} of {bound} by {who}: every window closes at least {bound} after its end"
        mode: Mode = "Off" if answer is None else answer.mode
        return ChosenBound(bound_ms, "job", None, mode, reason, answer, pin)


@dataclass(frozen=True, slots=True)
class Choice:
    """A bound that was chosen for a plan, and what it was chosen from."""

    settings: JobSettings
    own: OwnBounds
    client: ControllerClient | None
    cache: BoundCache
    """Where the last good answers are."""
    chosen: ChosenBound

    @property
    def key(self) -> tuple[str, str]:
        """Names of the job and the stream."""
        return self.settings.job, self.settings.stream

    def by(self, answer: BoundAnswer) -> ChosenBound:
        """Return what would be chosen if ``answer`` were the controller's now."""
        return self.chosen if self.settings.pin is not None else self.own.by(answer)


@dataclass(frozen=True, slots=True)
class _Start:
    """A start of a query, by whoever has its bounds."""

    bounds: Mapping[_Key, ChosenBound]
    choices: tuple[list[Choice], ...]


_ALONE = _Start(MappingProxyType({}), ())
# A context variable, not module state: what one thread builds neither gets another's bounds nor is collected there.
_start: ContextVar[_Start] = ContextVar("tidemark_start", default=_ALONE)


@contextmanager
def starting(bounds: Mapping[_Key, ChosenBound] | None = None) -> Iterator[list[Choice]]:
    """Hand bounds to the plans that are built within the context, in this thread, and collect what is chosen for them.

    A context within a context takes nothing away from the outer one. Yields the list, which grows as plans are built.

    Args:
        bounds: by names of job and stream. The job's own pin still goes before them; for other streams the controller
            is asked.
    """
    outer, choices = _start.get(), list[Choice]()
    token = _start.set(_Start({**outer.bounds, **(bounds or {})}, (*outer.choices, choices)))
    try:
        yield choices
    finally:
        _start.reset(token)


def choose_bound_at_start(
    settings: JobSettings, own: OwnBounds, client: ControllerClient | None, *, restarts: bool = True
) -> Choice:
    """Return the bound to start with, within the limit of a request. Never raises: a job must start.

    The first of these that exists: the bound that the job's own pin fixes (then the controller is not asked), the one
    that ``starting`` hands over, the controller's answer, the last good answer on disk, the job's own bound. A pin in
    an answer is followed, too.

    Args:
        own: what is the job's own.
        client: the controller; None when the job has none.
        restarts: whether another bound needs another start; a stream that takes it at once is none of the runner's.
    """
    start, key = _start.get(), (settings.job, settings.stream)
    cache = BoundCache(settings.cache_dir, settings.controller_url or "")
    if settings.pin is not None:
        chosen = own.pinned(settings.pin, settings.pinned_by)
    else:
        chosen = start.bounds.get(key) or _from_controller(client, cache, key, own)
    choice = Choice(settings, own, client, cache, chosen)
    for choices in start.choices if restarts else ():
        choices.append(choice)
    return choice


def _from_controller(
    client: ControllerClient | None, cache: BoundCache, key: _Key, own: OwnBounds
) -> ChosenBound:
    """Return what the controller's answer gives, or the last good answer on disk."""
    if client is None:
        return ChosenBound(own.bound_ms, reason="no controller is set")
    try:
        answer = client.bound(*key)
    except Exception as error:  # noqa: BLE001 - no fault of the network or its settings may stop the job
        problem, last = str(error) or type(error).__name__, cache.read(*key)
        if last is None:
            return ChosenBound(own.bound_ms, reason=f"no answer and none on disk: {problem}")
        return own.by(last, "disk", f"the last good answer, because: {problem}")
    cache.write(answer)
    return own.by(answer)
