"""The bound at start: from the controller, else the last good answer on disk, else the job's own.

A job must start whatever happens to the controller (fail open), so nothing here raises for an outage. The answer is
kept on disk whole, including "no bound": an outage must not revive a bound that was taken back.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from tidemark.models.wire import BoundAnswer, BoundSource, Mode, read_bound_answer
from tidemark.spark_jobs.client import ControllerClient

__all__ = ["BoundCache", "ChosenBound", "choose_bound_at_start"]

_log = logging.getLogger("tidemark.spark")


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
    """The mode, as last heard from the controller; Off when nothing was ever heard."""
    reason: str
    """Why this one, in one sentence."""


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
            return read_bound_answer(json.loads(path.read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning("the last good bound in %s cannot be read: %s", path, error)
            return None

    def write(self, answer: BoundAnswer) -> None:
        """Keep ``answer``; the file is replaced in one step, so a killed driver leaves the old or the new one."""
        path = self._path(answer.job, answer.stream)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".bound-")
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump(asdict(answer), file)
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).replace(path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            _log.warning("the bound cannot be kept in %s: %s", path, error)

    def _path(self, job: str, stream: str) -> Path:
        return self._folder / quote(job, safe="") / f"{quote(stream, safe='')}.json"


def choose_bound_at_start(  # noqa: PLR0917 - what a bound depends on
    job: str,
    stream: str,
    own_bound_ms: int,
    client: ControllerClient | None,
    cache: BoundCache,
    limit_s: float = 3.0,
) -> ChosenBound:
    """Return the bound to start with, within about ``limit_s`` seconds. Never raises: a job must start.

    Args:
        job: name of the job.
        stream: name of the stream.
        own_bound_ms: the job's own bound, in milliseconds.
        client: the controller; None when the job has none.
        cache: last good answers.
        limit_s: how long the controller may take, in seconds.
    """
    if client is None:
        return ChosenBound(own_bound_ms, "job", None, "Off", "no controller is set")
    answer, problem = _ask(client, job, stream, limit_s)
    if answer is None:
        kept = cache.read(job, stream)
        if kept is None:
            return ChosenBound(own_bound_ms, "job", None, "Off", f"no answer and none on disk: {problem}")
        return _of(kept, "disk", own_bound_ms, f"the last good answer, because: {problem}")
    cache.write(answer)
    return _of(answer, "controller", own_bound_ms, answer.reason)


def _ask(client: ControllerClient, job: str, stream: str, limit_s: float) -> tuple[BoundAnswer | None, str]:
    """Return the controller's answer, or None and why there is none."""
    got: list[BoundAnswer] = []
    problems = [f"{client.url} did not answer within {limit_s:g} s"]

    def ask() -> None:
        try:
            got.append(client.bound(job, stream))
        except Exception as error:  # noqa: BLE001 - whatever the network and its settings do, the job starts
            problems.append(str(error) or type(error).__name__)

    # In a thread of its own, since the limit of a request does not hold for names and for answers that trickle.
    thread = threading.Thread(target=ask, name="tidemark-bound", daemon=True)
    thread.start()
    thread.join(limit_s + 0.5)
    return (got[0] if got else None), problems[-1]


def _of(answer: BoundAnswer, source: BoundSource, own_bound_ms: int, reason: str) -> ChosenBound:
    if answer.bound_ms is None or answer.mode == "Off":
        return ChosenBound(own_bound_ms, "job", None, answer.mode, reason)
    return ChosenBound(answer.bound_ms, source, answer.generation, answer.mode, reason)
