# ruff: noqa: RUF009 - what a field is made of is its row of the table
"""The job's settings: one table, of which a call gives a value by an argument and the conf by ``spark.tidemark.*``.

Keys start with ``spark.`` because ``spark-submit`` drops all others. The token itself is never a setting, only the
file that holds it, and a key that looks like one is rejected: Spark shows conf values in its UI and event logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from tidemark.models.base.duration import format_duration, parse_delay, parse_duration
from tidemark.models.base.granules import default_granule_us
from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import Mode, Pin
from tidemark.spark_jobs.core.arguments import (
    DIMENSION,
    FILE,
    FLAG,
    INTERVAL,
    RULES,
    Rule,
    Treatment,
    WrongValueError,
    one_of,
    text,
    up_to,
)
from tidemark.spark_jobs.core.client import TOKEN_VARIABLE
from tidemark.spark_jobs.core.tap import DEFAULT_MAX_KEYS, MAX_KEYS

PREFIX = "spark.tidemark."
OF_STREAM = f"{PREFIX}stream."
"""Keys that say of one stream what others say of all."""

GRANULE_US = 1_000_000
"""Granule of a stream whose operator is read from the plan: it divides every window of whole seconds."""

UNSET: Any = object()
"""What is no value of a parameter for which None means something."""

TapKind = Literal["compiled", "observe"]
"""How rows are counted."""

Conf = Callable[[str, str | None], str | None]
"""Returns the value of a conf key, or the given default."""


@dataclass(frozen=True, slots=True)
class Closing:
    """That a run which reads all there is moves the watermark at its end."""

    delay_us: int | None = None
    """How late rows come at most by the clock, in microseconds; None: only the bound says how long they are awaited."""


_LONGEST_NAME = 200
_MS = " milliseconds"
TOKEN_KEY = "spark.tidemark.token"  # noqa: S105 - the name of a key
"""A key that somebody might put the token itself into."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: a key of the conf, and an argument of the call unless it is the jar's."""

    name: str
    """Name of the argument."""
    rule: Rule
    """What it must be."""
    default: object
    meaning: str
    of_context: bool
    """Whether only the context's conf has a say where the job does not call Tidemark: else a client of a Spark Connect
    server could let that server send its token, or write a file, where the client likes."""
    instead: str | None
    """What says the same in a program, where that is no argument of its name."""

    @property
    def key(self) -> str:
        """Its key of the conf."""
        return key_of(self.name)


def key_of(name: str) -> str:
    """Return the conf's key of a setting."""
    return name if name.startswith("spark.") else PREFIX + name.replace("_", ".")


def _name(example: str) -> Rule:
    def fits(name: object) -> bool:
        return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and fitting(name) == name

    what = f"1 to {_LONGEST_NAME} printable characters, no slash and no space around it"
    return Rule(what, fits, f'"{example}"')


def fitting(name: str) -> str:
    """Return a name that may hold any characters as one that is allowed for a job or a stream."""
    fitting = "".join(letter if letter.isprintable() and letter != "/" else "_" for letter in name)
    return fitting[:_LONGEST_NAME].strip() or "unnamed"


def _delay(written: str) -> str:
    """Return a delay as Spark reads it, which alone can read a range in SQL's quotes."""
    try:
        return f"{parse_delay(written)}{_MS}"
    except ValueError:
        if "'" in written:
            return written
        raise


def whole_ms(least_ms: int) -> Callable[[str], int]:
    """Return what reads a duration of whole milliseconds, in microseconds."""

    def read(written: str) -> int:
        duration_us = parse_duration(written)
        if duration_us < least_ms * 1_000 or duration_us % 1_000:
            raise ValueError(f"{written!r} must be at least {least_ms} ms, and in whole milliseconds")
        return duration_us

    return read


def _closing(value: bool | str) -> Closing | None:
    if isinstance(value, bool):
        return Closing() if value else None
    delay_us = parse_duration(value)
    if delay_us < 0:
        raise ValueError(f"{value!r}: rows do not come before their time")
    return Closing(delay_us)


def _wait_at_start(written: str) -> int:
    """Return how long the start of a query may wait, in microseconds, of a text that Spark reads."""
    wait_us = parse_duration(f"{written} ms" if written.isdecimal() else written)
    if wait_us < 1_000_000:
        raise ValueError(f"{written!r} is no time of a second or more, such as 20s")
    return wait_us


def _is(
    rule: Rule, default: object, meaning: str, *, of_context: bool = False, instead: str | None = None
) -> Any:
    return field(metadata={"setting": (rule, default, meaning, of_context, instead)})


_ADDRESS = Rule(
    "an address that starts with http:// or https://",
    lambda value: isinstance(value, str) and value.startswith(("http://", "https://")),
    '"http://localhost:8642"',
)
_DELAY = replace(INTERVAL, make=_delay)
_DURATION = replace(INTERVAL, make=whole_ms(0), example='"1 minute"')
_CLOSING = Rule(
    "True, False or an interval as text",
    lambda value: FLAG.fits(value) or INTERVAL.fits(value),
    "True",
    of_text=FLAG.of_text,
    make=_closing,
)
_OF_PROCESS = "none: it is the process's"
_SIDE = "`late=side(...)`"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings of one stream of one job; its first fields are the table of them all."""

    job: str = _is(_name("shop"), None, "Name of the job; `spark.app.name` unless set.")
    stream: str = _is(_name("clicks"), "default", "Name of the stream within the job.")
    controller_url: str | None = _is(
        _ADDRESS, None, "Address of the controller; without it nothing is sent or requested.", of_context=True
    )
    token_file: Path | None = _is(
        FILE,
        None,
        f"File with the bearer token; the variable `{TOKEN_VARIABLE}` unless set.",
        of_context=True,
    )
    mode: Mode = _is(
        one_of(Mode),
        "Off",
        "The job's own mode, until the controller has one for the stream. `Restart` needs the job's own call.",
    )
    bound: str | None = _is(
        _DELAY,
        None,
        "The job's own bound, as `withWatermark` takes it, or short: `10m`. A call needs one; else it is the query's.",
    )
    ceiling: str | None = _is(
        _DELAY,
        None,
        "The bound of Live when nothing steers, and the longest that state is retained; the job's own bound unless "
        "set, and then Live may only narrow it.",
    )
    idle_timeout: int | None = _is(
        _DURATION,
        None,
        "In Live, silence after which a partition no longer holds the watermark back; learned unless set. A source "
        "that does not report its backlog needs it, else its partitions are never idle.",
    )
    close_at_end: Closing | None = _is(
        _CLOSING,
        False,
        "`true` ends a run with `availableNow` with a step that moves the watermark as far as the bound allows; an "
        "interval such as `1 hour` says how late rows come at most by the clock: windows older than that come out too.",
    )
    partition: str | None = _is(
        replace(RULES["arrival_time"], example='"partition"'),
        "partition",
        "Column that names the partition of a row, as Kafka's has it; without it, or with None, the stream is one.",
    )
    arrival_time: str | None = _is(
        RULES["arrival_time"],
        "timestamp",
        "Column with the source's own timestamp, as Kafka's has it, used where it is there; `aside` needs it.",
    )
    granule: int | None = _is(
        replace(INTERVAL, make=whole_ms(1), example='"1 second"'),
        None,
        "Width of the event-time grid on which rows are counted. Unless set, an exact one for the operator of the "
        "call, or a second where that is read from the plan: exact for windows of whole seconds.",
    )
    max_keys: int = _is(
        up_to(MAX_KEYS),
        DEFAULT_MAX_KEYS,
        "Distinct pairs of partition and granule that a batch may hold and still be counted exactly.",
    )
    tap: TapKind = _is(
        one_of(TapKind),
        "compiled",
        "How rows are counted: `compiled` into the stage that reads them, or by Spark's `observe`, at thrice the cost.",
    )
    future_rows: Treatment = _is(
        one_of(Treatment),
        "clamp",
        "In Live, what becomes of future-dated rows: `clamp` sets their event time back, `aside` takes them out "
        "(`live.future_rows.future_rows` returns them).",
    )
    future_allowance: int = _is(
        _DURATION, "1 minute", "How far ahead a row may be dated and still be taken as it is."
    )
    pin: Pin | None = _is(
        one_of(Pin),
        None,
        "Kill switch of the job: `off` holds it to its own bound, `ceiling` to its ceiling, without the controller.",
    )
    own_event_time_confirmed: bool = _is(
        FLAG,
        False,
        "`true` lets a query whose `transformWithState` gives its rows their own event time start with a narrower "
        "bound, or in Live.",
    )
    enabled: bool | None = _is(
        FLAG,
        None,
        "`false` leaves the query as it is, with Spark's own watermark. Without a call, `true` watches without a "
        "controller, too, and unless set `spark.tidemark.controller.url` decides.",
    )
    cache_dir: Path = _is(
        FILE, None, "Folder of last good bounds; `~/.cache/tidemark` unless set.", of_context=True
    )
    timeout_ms: int = _is(
        up_to(600_000), 3_000, "Limit of each request to the controller, in milliseconds.", of_context=True
    )
    queue_reports: int = _is(
        up_to(1_000_000), 1_000, "Reports kept in the driver while the controller is away.", of_context=True
    )
    watch_seconds: int = _is(
        up_to(3_600), 30, "How long the controller may hold a request for the next bound, in seconds."
    )
    late_folder: str | None = _is(
        text("a path or URI of a folder for the late rows"),
        None,
        "Where the rows that Spark drops as late are kept, those of each stream in a folder of its name in this one; "
        "unless set they are counted and dropped.",
        instead=_SIDE,
    )
    late_dimension: str | None = _is(
        DIMENSION,
        None,
        "Column by whose values all rows and those that are lost are counted.",
        instead=f"`dimension=` of {_SIDE}",
    )
    name: str | None = _is(
        _name("clicks"),
        None,
        "Another name for a stream that has no call: `spark.tidemark.stream.NAME.name`.",
        instead="`stream`",
    )
    restart_marker: Path | None = _is(
        FILE,
        None,
        "File that says which bound a job ended for, where something outside starts it again.",
        of_context=True,
        instead="`marker=` of `run_adaptive`",
    )
    python: str | None = _is(
        text("a Python"),
        None,
        "The Python that has Tidemark, for the jar; else `spark.pyspark.driver.python`, `spark.pyspark.python`, the "
        "variables `PYSPARK_DRIVER_PYTHON` and `PYSPARK_PYTHON`, or `python3`.",
        of_context=True,
        instead=_OF_PROCESS,
    )
    start_timeout: int = _is(
        replace(INTERVAL, make=_wait_at_start),
        "20s",
        "How long the start of a query may wait for the jar; then it runs as it is.",
        of_context=True,
        instead=_OF_PROCESS,
    )

    pinned_by: str = "spark.tidemark.pin"
    """Who says that the job is pinned."""
    called: bool = True
    """Whether the job calls ``adaptive_watermark``. Else no query of it is ended, and what it is told names conf."""
    reads: str | None = None
    """Source and event-time column of a stream that nobody named."""
    left_out: tuple[str, ...] = ()
    """What of the conf is left out, and why."""


SETTINGS: Mapping[str, Setting] = {
    item.name: Setting(item.name, *item.metadata["setting"]) for item in fields(JobSettings) if item.metadata
}
"""Every setting of a job by its name, for the call, the conf and the table in docs/reference/settings.md."""


def unknown_keys(keys: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each key that has Tidemark's prefix and is none of its keys, with the one that may be meant."""
    names = {setting.key.removeprefix(PREFIX): setting.key for setting in SETTINGS.values()}
    for key in sorted(keys):
        if (
            key.startswith(PREFIX)
            and key not in {*names.values(), TOKEN_KEY}
            and not key.startswith(OF_STREAM)
        ):
            near = get_close_matches(key.removeprefix(PREFIX), names, 1)
            yield key, names[near[0]] if near else None


def granule_of(granule_us: int | None, operator: Operator | None) -> int:
    """Return the width of the tap's granules in microseconds.

    Raises:
        WrongValueError: when the rows of one may belong to different windows of the operator.
    """
    if granule_us is None:
        return GRANULE_US if operator is None else default_granule_us(operator)
    if operator is not None and not operator.granule_fits(granule_us):
        raise WrongValueError(
            "granule",
            f"granule {format_duration(granule_us)} must divide size, slide and start of the {operator}, "
            "else rows of one granule would belong to different windows",
        )
    return granule_us


def delay_ms_of(delay: str | None) -> int | None:
    """Return a bound or a ceiling of the settings in milliseconds; None where only Spark can read it."""
    return None if delay is None or not delay.endswith(_MS) else int(delay.removesuffix(_MS))


def check_ceiling(ceiling_ms: int, bound_ms: int) -> None:
    """Raise if a ceiling would close windows before the bound does.

    Raises:
        WrongValueError: when it would.
    """
    if ceiling_ms < bound_ms:
        raise WrongValueError(
            "ceiling",
            f"ceiling {format_duration(ceiling_ms * 1_000)} is below the bound {format_duration(bound_ms * 1_000)}: "
            "it would close windows before the bound does; it must exceed the bound by as much as partitions are apart",
        )
