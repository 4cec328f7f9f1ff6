"""The job's settings: ``spark.tidemark.*`` conf, overridden by arguments.

Keys start with ``spark.`` because ``spark-submit`` drops all others. The token itself is never a setting, only the
file that holds it, and a key that looks like one is rejected: Spark shows conf values in its UI and event logs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, cast, get_args

from tidemark.models.base.duration import parse_duration
from tidemark.models.base.stateful import CONFIRMED_KEY
from tidemark.models.protocol.messages import Pin
from tidemark.spark_jobs.core.arguments import WrongValueError
from tidemark.spark_jobs.core.binding import Closing
from tidemark.spark_jobs.core.client import TOKEN_FILE_KEY, TOKEN_VARIABLE
from tidemark.spark_jobs.core.tap import TAP_KEY

PIN_KEY = "spark.tidemark.pin"
"""The job's own kill switch."""

CLOSING_KEY = "spark.tidemark.close.at.end"
"""Whether runs that read all there is close their last windows."""

TapKind = Literal["compiled", "observe"]
"""How rows are counted."""

_LONGEST_NAME = 200
_MOST: Mapping[str, int] = {
    "spark.tidemark.timeout.ms": 600_000,
    "spark.tidemark.queue.reports": 1_000_000,
    "spark.tidemark.watch.seconds": 3_600,
}
"""What a number of the conf may be at most."""
_PINS: dict[str, Pin] = {"off": "Off", "ceiling": "Ceiling"}
_TOKEN_KEY = "spark.tidemark.token"  # noqa: S105 - the name of a key
"""A key that somebody might put the token itself into."""
_IN_DOUBT: Mapping[str, str] = {PIN_KEY: "off"}
"""What a key that is left out says all the same: nobody misspells a kill switch to have it open."""

Conf = Callable[[str, str | None], str | None]
"""Returns the value of a conf key, or the given default."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One conf key."""

    key: str
    default: str | None
    meaning: str
    of_context: bool = False
    """Whether only the context's conf has a say where the job does not call Tidemark: else a client of a Spark Connect
    server could let that server send its token, or write a file, where the client likes."""


SETTINGS = (
    Setting("spark.tidemark.job", None, "Name of the job; `spark.app.name` unless set."),
    Setting("spark.tidemark.stream", "default", "Name of the stream, where the call does not give one."),
    Setting(
        "spark.tidemark.controller.url",
        None,
        "Address of the controller; without it nothing is sent or requested.",
        of_context=True,
    ),
    Setting(
        TOKEN_FILE_KEY,
        None,
        f"File that holds the bearer token; the environment variable `{TOKEN_VARIABLE}` unless set.",
        of_context=True,
    ),
    Setting(
        "spark.tidemark.cache.dir",
        None,
        "Folder of last good bounds; `~/.cache/tidemark` unless set.",
        of_context=True,
    ),
    Setting(
        "spark.tidemark.timeout.ms",
        "3000",
        "Limit of each request to the controller, in milliseconds.",
        of_context=True,
    ),
    Setting(
        "spark.tidemark.queue.reports",
        "1000",
        "Reports kept in the driver while the controller is away.",
        of_context=True,
    ),
    Setting(
        PIN_KEY,
        None,
        "Kill switch of the job: `off` holds it to its own bound, `ceiling` to its ceiling, without the controller.",
    ),
    Setting(
        "spark.tidemark.watch.seconds",
        "30",
        "How long the controller may hold a request for the next bound, in seconds.",
    ),
    Setting(
        "spark.tidemark.restart.marker",
        None,
        "File that says which bound a job ended for, where something outside starts it again.",
        of_context=True,
    ),
    Setting(
        TAP_KEY,
        "compiled",
        "How rows are counted: `compiled` into the stage that reads them, or by Spark's `observe`, at three times the "
        "cost.",
    ),
    Setting(
        CLOSING_KEY,
        "false",
        "`true`, or how late rows come at most by the clock, such as `1 hour`: what `close_at_end=` of the call says, "
        "where the call does not.",
    ),
    Setting(
        CONFIRMED_KEY,
        "false",
        "`true` lets a query whose `transformWithState` gives its rows their own event time start with a narrower "
        "bound, or in Live.",
    ),
)
"""Every conf key that a job reads, for the table in docs/reference/settings.md."""

PREFIX = "spark.tidemark."

OF_THE_CALL = frozenset(
    {
        *("mode", "bound", "ceiling", "idle.timeout", "partition", "granule"),
        *("future.rows", "future.allowance"),
    }
)
"""Keys, without the prefix, of what a job that calls ``adaptive_watermark`` says by an argument of the same name."""

OF_THE_JAR = frozenset({"enabled", "python", "start.timeout", "name", "late.folder", "late.dimension"})
"""Keys of a whole fleet that such a job has no use for."""


def keys_without_effect(given: Iterable[str]) -> Iterator[str]:
    """Yield of each key that a job that calls ``adaptive_watermark`` does not read what to write instead."""
    known = {setting.key.removeprefix(PREFIX) for setting in SETTINGS}
    for key in sorted(given):
        name = key.removeprefix(PREFIX)
        if key.startswith(PREFIX) and name in OF_THE_CALL:
            yield f"{key} has no effect on a job that calls adaptive_watermark: write {name.replace('.', '_')}= there"
        elif key.startswith(PREFIX) and name not in known | OF_THE_JAR and not name.startswith("stream."):
            near = get_close_matches(name, known, 1)
            instead = f": write {PREFIX}{near[0]}" if near else ""
            yield f"{key} is no key of Tidemark, and has no effect{instead}"


class Wishes:
    """The conf of a job. A fleet's conf stops no job and no watching: what does not fit is left out, and that is said.

    Args:
        conf: reads it.
    """

    def __init__(self, conf: Conf) -> None:
        self._conf = conf
        self.left_out: dict[str, str] = {}
        """By key that is left out the line that says so, and why."""

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the value of a key, or the default."""
        in_doubt = _IN_DOUBT.get(key) if self.lacks(key) else None
        values = (conf(each, None) for each, conf in self._reads(key).items() if each not in self.left_out)
        return in_doubt or next(filter(None, values), default)

    def lacks(self, key: str) -> bool:
        """Return whether a value of a key is left out."""
        return any(each in self.left_out for each in self._reads(key))

    def leave_out(self, error: WrongValueError) -> None:
        """Leave out the key whose value is wrong; raise the error where the conf does not say it."""
        name = error.name if error.name.startswith(PREFIX) else PREFIX + error.name.replace("_", ".")
        for key, conf in self._reads(name).items():
            if key not in self.left_out and conf(key, None):
                held = "" if name not in _IN_DOUBT else f", and taken for {_IN_DOUBT[name]!r}"
                self.left_out[key] = f"{key} is left out{held}: {error.why}{self._way_out(key)}"
                return
        raise error

    def _reads(self, key: str) -> dict[str, Conf]:
        """Return the keys that say what a key does, the first before the others, each with where it is read."""
        return {key: self._conf}

    def _way_out(self, key: str) -> str:  # noqa: ARG002 - for subclasses
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings of one stream of one job."""

    job: str
    stream: str
    controller_url: str | None
    token_file: Path | None
    """File with the bearer token; None: the environment may hold one."""
    cache_dir: Path
    """Folder of last good bounds."""
    timeout_s: float
    """Limit of each request to the controller, in seconds."""
    queue_reports: int
    """Reports kept while the controller is away."""
    pin: Pin | None = None
    """The job's own pin; None for none."""
    pinned_by: str = PIN_KEY
    """Who says so."""
    watch_s: float = 30.0
    """How long the controller may hold a request for the next bound, in seconds."""
    restart_marker: Path | None = None
    """File that says which bound a job ended for; None for none."""
    tap_kind: TapKind = "compiled"
    """How rows are counted, where the session can do both."""
    closing: Closing | None = None
    """What closes the last windows of a run that reads all there is; None leaves them open."""
    own_times_confirmed: bool = False
    """Whether operators may run that a watermark nearer to the newest rows may end."""
    called: bool = True
    """Whether the job calls ``adaptive_watermark``. Else no query of it is ended, and what it is told names conf."""
    reads: str | None = None
    """Source and event-time column of a stream that nobody named."""
    left_out: tuple[str, ...] = ()
    """What of the conf is left out, and why."""

    @classmethod
    def read(
        cls,
        conf: Conf | Wishes,
        *,
        job: str | None = None,
        stream: str | None = None,
        controller_url: str | None = None,
        token_file: str | None = None,
        close_at_end: bool | str | None = None,
    ) -> JobSettings:
        """Return the settings; an argument that is given wins over the conf, of which what is wrong is left out.

        Args:
            conf: the job's.
            job: name of the job.
            stream: name of the stream.
            controller_url: address of the controller.
            token_file: file that holds the bearer token.
            close_at_end: whether, and by which delay by the clock, the last windows of a run are closed.

        Raises:
            WrongValueError: when an argument is a name that is not allowed, an address without a scheme, or no delay.
        """
        wishes = conf if isinstance(conf, Wishes) else Wishes(conf)
        given = {
            "spark.tidemark.job": job,
            "spark.tidemark.stream": stream,
            "spark.tidemark.controller.url": controller_url,
            TOKEN_FILE_KEY: token_file,
            CLOSING_KEY: None if close_at_end is None else str(close_at_end),
        }
        while True:
            try:
                return cls._read(wishes, given)
            except WrongValueError as error:
                if given.get(error.name):
                    raise
                wishes.leave_out(error)

    @classmethod
    def _read(cls, wishes: Wishes, given: Mapping[str, str | None]) -> JobSettings:
        conf = wishes.get
        _reject_token(conf)
        found = {
            setting.key: given.get(setting.key) or conf(setting.key, setting.default) or None
            for setting in SETTINGS
        }
        url = found["spark.tidemark.controller.url"]
        if url is not None and not url.startswith(("http://", "https://")):
            raise WrongValueError(
                "spark.tidemark.controller.url",
                f"spark.tidemark.controller.url is {url!r}; it must start with http:// or https://",
            )
        cache = found["spark.tidemark.cache.dir"]
        return cls(
            job=checked_name(
                "spark.tidemark.job",
                found["spark.tidemark.job"] or fitting(conf("spark.app.name", None) or "unnamed"),
            ),
            stream=checked_name("spark.tidemark.stream", found["spark.tidemark.stream"] or "default"),
            controller_url=url,
            token_file=_path(found[TOKEN_FILE_KEY]),
            cache_dir=Path(cache) if cache else _cache_home() / "tidemark",
            timeout_s=_number("spark.tidemark.timeout.ms", found) / 1_000,
            queue_reports=_number("spark.tidemark.queue.reports", found),
            pin=None if found[PIN_KEY] is None else _PINS[choice(PIN_KEY, found[PIN_KEY], _PINS)],
            watch_s=float(_number("spark.tidemark.watch.seconds", found)),
            restart_marker=_path(found["spark.tidemark.restart.marker"]),
            tap_kind=cast("TapKind", choice(TAP_KEY, found[TAP_KEY], get_args(TapKind))),
            closing=closing_of(CLOSING_KEY, found[CLOSING_KEY] or "false"),
            own_times_confirmed=flag(CONFIRMED_KEY, found[CONFIRMED_KEY]),
            left_out=tuple(wishes.left_out.values()),
        )


def _reject_token(conf: Conf) -> None:
    if conf(_TOKEN_KEY, None):
        raise WrongValueError(
            _TOKEN_KEY,
            f"{_TOKEN_KEY} must not be set: Spark shows conf values in its UI and event logs. Put the token into a "
            f"file and name it in {TOKEN_FILE_KEY}, or into the driver's environment variable {TOKEN_VARIABLE}; and "
            "have a new one made, since this one has been shown",
        )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def choice(key: str, text: str | None, words: Iterable[str]) -> str:
    """Return the word that a key says, in whatever case; ``WrongValueError`` for another one."""
    for word in words:
        if (text or "").strip().lower() == word.lower():
            return word
    raise WrongValueError(key, f"{key} is {text!r}; it must be {' or '.join(words)}")


def closing_of(key: str, given: str) -> Closing | None:
    """Return what ``true``, ``false`` or a delay by the clock says of the end of a run; None leaves its windows open.

    Raises:
        WrongValueError: for anything else.
    """
    if given.strip().lower() in {"true", "false"}:
        return Closing() if flag(key, given) else None
    try:
        delay_us = parse_duration(given)
    except ValueError as error:
        why = f"{key} is {given!r}; it must be true, false or an interval such as 1 hour"
        raise WrongValueError(key, why) from error
    if delay_us < 0:
        raise WrongValueError(key, f"{key} is {given!r}; rows do not come before their time")
    return Closing(delay_us)


def flag(key: str, text: str | None) -> bool:
    """Return what a key says that is true or false.

    Raises:
        WrongValueError: when it is neither.
    """
    return choice(key, text, ("true", "false")) == "true"


def _cache_home() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        return Path(tempfile.gettempdir())


def checked_name(key: str, name: str) -> str:
    """Return the name of a job or a stream that a key says.

    Raises:
        WrongValueError: when no job or stream may have it.
    """
    if not 0 < len(name) <= _LONGEST_NAME or "/" in name or not name.isprintable() or name != name.strip():
        raise WrongValueError(
            key,
            f"{key} is {name!r}; it must have 1 to {_LONGEST_NAME} printable characters, no slash and "
            "no space around it",
        )
    return name


def fitting(name: str) -> str:
    """Return a name that may hold any characters as one that is allowed for a job or a stream."""
    fitting = "".join(letter if letter.isprintable() and letter != "/" else "_" for letter in name)
    return fitting[:_LONGEST_NAME].strip() or "unnamed"


def _number(key: str, given: Mapping[str, str | None]) -> int:
    text = given[key] or ""
    try:
        number = int(text)
    except ValueError:
        raise WrongValueError(key, f"{key} is {text!r}; it must be a whole number") from None
    if not 1 <= number <= _MOST[key]:
        raise WrongValueError(key, f"{key} is {text!r}; it must be at least 1 and at most {_MOST[key]:,}")
    return number
