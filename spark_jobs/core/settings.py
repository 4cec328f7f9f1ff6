"""The job's settings: ``spark.tidemark.*`` conf, overridden by arguments.

Keys start with ``spark.`` because ``spark-submit`` drops all others. The token itself is never a setting, only the
file that holds it, and a key that looks like one is rejected: Spark shows conf values in its UI and event logs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, cast, get_args

from tidemark.models.base.duration import parse_duration
from tidemark.models.protocol.messages import Pin
from tidemark.models.specs.findings import CONFIRMED_KEY
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
_PINS: dict[str, Pin] = {"off": "Off", "ceiling": "Ceiling"}
_TOKEN_KEY = "spark.tidemark.token"  # noqa: S105 - the name of a key
"""A key that somebody might put the token itself into."""


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
    may_reject: bool = True
    """Whether a query that must not run is ended: not one of a job that does not call Tidemark."""

    @classmethod
    def read(
        cls,
        conf: Callable[[str, str | None], str | None],
        *,
        job: str | None = None,
        stream: str | None = None,
        controller_url: str | None = None,
        token_file: str | None = None,
        close_at_end: bool | str | None = None,
    ) -> JobSettings:
        """Return the settings; an argument that is given wins over the conf.

        Args:
            conf: returns the value of a conf key, or the given default.
            job: name of the job.
            stream: name of the stream.
            controller_url: address of the controller.
            token_file: file that holds the bearer token.
            close_at_end: whether, and by which delay by the clock, the last windows of a run are closed.

        Raises:
            ValueError: when a number cannot be read, a name is not allowed, an address has no scheme, a pin is unknown,
                or the conf holds a token.
        """
        _reject_token(conf)
        given = {
            "spark.tidemark.job": job,
            "spark.tidemark.stream": stream,
            "spark.tidemark.controller.url": controller_url,
            TOKEN_FILE_KEY: token_file,
            CLOSING_KEY: None if close_at_end is None else str(close_at_end),
        }
        found = {
            setting.key: given.get(setting.key) or conf(setting.key, setting.default) or None
            for setting in SETTINGS
        }
        url = found["spark.tidemark.controller.url"]
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(
                f"spark.tidemark.controller.url is {url!r}; it must start with http:// or https://"
            )
        cache = found["spark.tidemark.cache.dir"]
        return cls(
            job=_checked_name(
                "spark.tidemark.job",
                found["spark.tidemark.job"] or fitting(conf("spark.app.name", None) or "unnamed"),
            ),
            stream=_checked_name("spark.tidemark.stream", found["spark.tidemark.stream"] or "default"),
            controller_url=url,
            token_file=_path(found[TOKEN_FILE_KEY]),
            cache_dir=Path(cache) if cache else _cache_home() / "tidemark",
            timeout_s=_number("spark.tidemark.timeout.ms", found["spark.tidemark.timeout.ms"], 1) / 1_000,
            queue_reports=_number("spark.tidemark.queue.reports", found["spark.tidemark.queue.reports"], 1),
            pin=_pin(found[PIN_KEY]),
            watch_s=float(_number("spark.tidemark.watch.seconds", found["spark.tidemark.watch.seconds"], 1)),
            restart_marker=_path(found["spark.tidemark.restart.marker"]),
            tap_kind=_tap_kind(found[TAP_KEY]),
            closing=closing_of(CLOSING_KEY, found[CLOSING_KEY] or "false"),
            own_times_confirmed=flag(CONFIRMED_KEY, found[CONFIRMED_KEY]),
        )


def _reject_token(conf: Callable[[str, str | None], str | None]) -> None:
    if conf(_TOKEN_KEY, None):
        raise ValueError(
            f"{_TOKEN_KEY} must not be set: Spark shows conf values in its UI and event logs. Put the token into a "
            f"file and name it in {TOKEN_FILE_KEY}, or into the driver's environment variable {TOKEN_VARIABLE}; and "
            "have a new one made, since this one has been shown"
        )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _pin(text: str | None) -> Pin | None:
    if text is None:
        return None
    try:
        return _PINS[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{PIN_KEY} is {text!r}; it must be {' or '.join(_PINS)}") from None


def _tap_kind(text: str | None) -> TapKind:
    for kind in get_args(TapKind):
        if (text or "").strip().lower() == kind:
            return cast("TapKind", kind)
    raise ValueError(f"{TAP_KEY} is {text!r}; it must be {' or '.join(get_args(TapKind))}")


def closing_of(key: str, given: str) -> Closing | None:
    """Return what ``true``, ``false`` or a delay by the clock says of the end of a run; None leaves its windows open.

    Raises:
        ValueError: for anything else; the message names ``key``.
    """
    if given.strip().lower() in {"true", "false"}:
        return Closing() if flag(key, given) else None
    try:
        delay_us = parse_duration(given)
    except ValueError as error:
        raise ValueError(
            f"{key} is {given!r}; it must be true, false or an interval such as 1 hour"
        ) from error
    if delay_us < 0:
        raise ValueError(f"{key} is {given!r}; rows do not come before their time")
    return Closing(delay_us)


def flag(key: str, text: str | None) -> bool:
    """Return what a key says that is true or false.

    Raises:
        ValueError: when it is neither.
    """
    value = (text or "").strip().lower()
    if value not in {"true", "false"}:
        raise ValueError(f"{key} is {text!r}; it must be true or false")
    return value == "true"


def _cache_home() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        return Path(tempfile.gettempdir())


def _checked_name(key: str, name: str) -> str:
    if not 0 < len(name) <= _LONGEST_NAME or "/" in name or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"{key} is {name!r}; it must have 1 to {_LONGEST_NAME} printable characters, no slash and "
            "no space around it"
        )
    return name


def fitting(name: str) -> str:
    """Return a name that may hold any characters as one that is allowed for a job or a stream."""
    fitting = "".join(letter if letter.isprintable() and letter != "/" else "_" for letter in name)
    return fitting[:_LONGEST_NAME].strip() or "unnamed"


def _number(key: str, text: str | None, minimum: int) -> int:
    try:
        number = int(text or "")
    except ValueError:
        raise ValueError(f"{key} is {text!r}; it must be a whole number") from None
    if number < minimum:
        raise ValueError(f"{key} is {number}; it must be at least {minimum}")
    return number
