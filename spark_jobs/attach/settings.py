"""The conf keys of a job that does not call ``adaptive_watermark``: what a call would say, by stream where need be.

``spark.tidemark.stream.NAME.mode`` says of one stream what ``spark.tidemark.mode`` says of all of them. ``NAME`` is the
one that Tidemark gives the stream, before it is renamed.

All of it is a wish: what does not fit a stream is left out, with a line in the log and a condition of the stream.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from tidemark.models.base.duration import parse_duration
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs.attach.names import lasting_part
from tidemark.spark_jobs.core.arguments import Treatment, WrongValueError
from tidemark.spark_jobs.core.settings import (
    PREFIX,
    SETTINGS,
    Conf,
    JobSettings,
    Setting,
    Wishes,
    checked_name,
    choice,
    fitting,
    flag,
)

OF_STREAM = f"{PREFIX}stream."

_ENABLED = "spark.tidemark.enabled"
_NAME, _STREAM = "spark.tidemark.name", "spark.tidemark.stream"
MODE = "spark.tidemark.mode"
_BOUND = "spark.tidemark.bound"
_CEILING = "spark.tidemark.ceiling"
_IDLE_TIMEOUT = "spark.tidemark.idle.timeout"
_PARTITION = "spark.tidemark.partition"
_GRANULE = "spark.tidemark.granule"
_TIMEOUT, _START_TIMEOUT = "spark.tidemark.timeout.ms", "spark.tidemark.start.timeout"
LATE_FOLDER = "spark.tidemark.late.folder"
LATE_DIMENSION = "spark.tidemark.late.dimension"
_FUTURE_ROWS = "spark.tidemark.future.rows"
_FUTURE_ALLOWANCE = "spark.tidemark.future.allowance"

ATTACH_SETTINGS = (
    Setting(
        _ENABLED,
        None,
        "`false` leaves all queries as they are; `true` watches them without a controller, too. Unless set, "
        "`spark.tidemark.controller.url` decides.",
    ),
    Setting(
        "spark.tidemark.python",
        None,
        "The Python that has Tidemark; else `spark.pyspark.driver.python`, `spark.pyspark.python`, the variables "
        "`PYSPARK_DRIVER_PYTHON` and `PYSPARK_PYTHON`, or `python3`.",
        of_context=True,
    ),
    Setting(
        _START_TIMEOUT,
        "20s",
        "How long the start of a query may wait for Tidemark; then it runs as it is.",
        of_context=True,
    ),
    Setting(_NAME, None, "Another name for a stream: `spark.tidemark.stream.NAME.name`."),
    Setting(MODE, "Off", "The job's own mode: `Off`, `OnRestart` or `Live`."),
    Setting(_BOUND, None, "The job's own bound, instead of the one that the query has."),
    Setting(_CEILING, None, "The ceiling of Live; the job's own bound unless set."),
    Setting(
        _IDLE_TIMEOUT, None, "In Live, silence after which a partition no longer holds the watermark back."
    ),
    Setting(_PARTITION, "partition", "Column that names the partition of a row, where the watermark stands."),
    Setting(_GRANULE, None, "Width of the event-time grid on which rows are counted."),
    Setting(
        LATE_FOLDER,
        None,
        "Where the rows that Spark drops as late are kept, those of each stream in a folder of its name in this one; "
        "unless set they are counted and dropped.",
    ),
    Setting(LATE_DIMENSION, None, "Column by whose values all rows and those that are lost are counted."),
    Setting(_FUTURE_ROWS, "clamp", "In Live, what becomes of future-dated rows: `clamp` or `aside`."),
    Setting(_FUTURE_ALLOWANCE, "1 minute", "How far ahead a row may be dated and still be taken as it is."),
)
"""They are read beside those of ``SETTINGS``; without ``NAME`` all but ``spark.tidemark.name`` are of every stream."""

_OF_CONTEXT = {setting.key for setting in (*SETTINGS, *ATTACH_SETTINGS) if setting.of_context}
_DEFAULTS = {setting.key: setting.default for setting in ATTACH_SETTINGS}
_MODES = ("Off", "OnRestart", "Live")
"""Mode Restart needs a runner."""

_UNNAMED = re.compile(
    r"pyspark-shell|spark shell|spark connect server|connect|spark-connect|unnamed|org\.apache\.spark\..*"
    r"|sparksql::.*|thrift jdbc/odbc server|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
"""Names of applications that nobody gave: Spark's shells and servers, their classes, and a random id."""


class StreamConf(Wishes):
    """The conf of one stream.

    Args:
        session: reads the conf of the query's session, which a client of Spark Connect may set.
        context: reads that of the context, which whoever starts the driver sets.
        found: the stream's name before it is renamed.
    """

    def __init__(self, session: Conf, context: Conf, found: str) -> None:
        super().__init__(session)
        self._context, self._found = context, found
        for key in filter(lambda each: session(each, None), (_NAME, _STREAM)):
            name = self._of_stream(_NAME)
            self.left_out[key] = (
                f"{key} is left out: one name for all streams would make one of several; write {name}"
            )

    def of_call(self, key: str) -> str | None:
        """Return the value of one of ``ATTACH_SETTINGS``, or its default."""
        return self.get(key, _DEFAULTS[key])

    def leave_out_what_fails(self, error: Exception) -> None:
        """Leave out what is wrong, or all that a call would say where that is not known.

        Raises:
            Exception: the error, where nothing is left to leave out.
        """
        if isinstance(error, WrongValueError):
            with suppress(WrongValueError):
                return self.leave_out(error)
        why, before = (str(error) or type(error).__name__).splitlines()[0], len(self.left_out)
        for key in (*_DEFAULTS, *(setting.key for setting in SETTINGS)):
            if key not in _OF_CONTEXT:
                with suppress(WrongValueError):
                    self.leave_out(WrongValueError(key, why))
        if len(self.left_out) == before:
            raise error
        return None

    def _reads(self, key: str) -> dict[str, Conf]:
        if key in _OF_CONTEXT:
            return {key: self._context}
        of_stream = {self._of_stream(key): self._conf}
        return of_stream if key == _NAME else {**of_stream, key: self._conf}

    def _of_stream(self, key: str) -> str:
        """Return the key that says of this stream alone what a key says of all."""
        return f"{OF_STREAM}{self._found}.{key.removeprefix(PREFIX)}"

    def _way_out(self, key: str) -> str:
        alone = key in _OF_CONTEXT or key.startswith(OF_STREAM)
        return "" if alone else f"; for this stream alone there is {self._of_stream(key)}"


@dataclass(frozen=True, slots=True)
class StreamCall:
    """What the conf says of a stream."""

    settings: JobSettings
    own_bound: str
    late_folder: str | None
    late_dimension: str | None
    call: dict[str, Any]
    """The other arguments of ``adaptive_watermark``."""


def read_conf(
    conf: StreamConf,
    found: str,
    place: str,
    own_bound: str,
    *,
    taken: Collection[str] = (),
    kept_job: str | None = None,
) -> StreamCall | None:
    """Return what the conf says of a stream; None where it is to be left as it is.

    Args:
        conf: the stream's.
        found: its name before it is renamed.
        place: the query's name or the end of its checkpoint, for a job that has no name; may be empty.
        own_bound: the bound that the query has.
        taken: names of the query's streams before this one.
        kept_job: the job that its checkpoint knows; None for none.

    Raises:
        WrongValueError: when a value is wrong.
    """
    if not flag(_ENABLED, conf.of_call(_ENABLED) or "true"):
        return None
    job = conf.get("spark.tidemark.job") or kept_job or _job_named(conf.get("spark.app.name"), place)
    name = conf.get(_NAME)
    if name in taken:
        raise WrongValueError(_NAME, f"{name!r} is another stream of the query")
    settings = JobSettings.read(conf, job=job, stream=found if name is None else checked_name(_NAME, name))
    folder, dimension = conf.get(LATE_FOLDER), conf.get(LATE_DIMENSION)
    if dimension is not None and folder is None and not conf.lacks(LATE_FOLDER):
        raise WrongValueError(LATE_DIMENSION, f"it needs {LATE_FOLDER}, which is not set")
    treatment = choice(_FUTURE_ROWS, conf.of_call(_FUTURE_ROWS), get_args(Treatment))
    return StreamCall(
        replace(settings, called=False, timeout_s=_timeout_s(conf, settings.timeout_s)),
        conf.get(_BOUND) or own_bound,
        folder,
        dimension,
        {
            "mode": cast("Mode", choice(MODE, conf.of_call(MODE), _MODES)),
            "ceiling": conf.of_call(_CEILING),
            "idle_timeout": conf.of_call(_IDLE_TIMEOUT),
            "partition": conf.of_call(_PARTITION),
            "granule": conf.of_call(_GRANULE),
            "future_rows": cast("Treatment", treatment),
            "future_allowance": conf.of_call(_FUTURE_ALLOWANCE),
        },
    )


def _timeout_s(conf: StreamConf, timeout_s: float) -> float:
    """Return the limit of a request, of which one has to fit into the time that the start of a query may wait.

    Raises:
        WrongValueError: when it does not.
    """
    text = conf.of_call(_START_TIMEOUT) or ""
    try:
        start_us = parse_duration(f"{text} ms" if text.isdecimal() else text)  # as Spark reads it
    except ValueError:
        start_us = 0
    if start_us < 1_000_000:
        raise WrongValueError(_START_TIMEOUT, f"{text!r} is no time of a second or more, such as 20s")
    limit_s = start_us / 2_000_000
    if timeout_s > limit_s and conf.get(_TIMEOUT) is not None:
        raise WrongValueError(_TIMEOUT, f"it must be at most half of {_START_TIMEOUT}, {text}")
    return min(timeout_s, limit_s)


def _job_named(application: str | None, place: str) -> str:
    """Return a job's name that a restart finds again: its application's, if somebody gave it one."""
    if application and not _UNNAMED.fullmatch(application.strip()):
        return fitting(lasting_part(application))
    return place or "unnamed"
