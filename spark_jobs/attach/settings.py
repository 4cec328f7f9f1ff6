"""The conf keys of a job that does not call ``adaptive_watermark``: what a call would say, by stream where need be.

``spark.tidemark.stream.NAME.mode`` says of one stream what ``spark.tidemark.mode`` says of all of them. ``NAME`` is the
one that Tidemark gives the stream, before it is renamed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs.core.settings import PREFIX, SETTINGS, JobSettings, Setting, fitting, flag
from tidemark.spark_jobs.live.future_rows import Treatment

OF_STREAM = f"{PREFIX}stream."

_ENABLED = "spark.tidemark.enabled"
_NAME = "spark.tidemark.name"
_MODE = "spark.tidemark.mode"
_BOUND = "spark.tidemark.bound"
_CEILING = "spark.tidemark.ceiling"
_IDLE_TIMEOUT = "spark.tidemark.idle.timeout"
_PARTITION = "spark.tidemark.partition"
_GRANULE = "spark.tidemark.granule"
_LATE_FOLDER = "spark.tidemark.late.folder"
_LATE_DIMENSION = "spark.tidemark.late.dimension"
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
        "spark.tidemark.start.timeout",
        "20s",
        "How long the start of a query may wait for Tidemark; then it runs as it is.",
        of_context=True,
    ),
    Setting(_NAME, None, "Another name for a stream: `spark.tidemark.stream.NAME.name`."),
    Setting(_MODE, "Off", "The job's own mode: `Off`, `OnRestart` or `Live`."),
    Setting(_BOUND, None, "The job's own bound, instead of the one that the query has."),
    Setting(_CEILING, None, "The ceiling of Live; the job's own bound unless set."),
    Setting(
        _IDLE_TIMEOUT, None, "In Live, silence after which a partition no longer holds the watermark back."
    ),
    Setting(_PARTITION, "partition", "Column that names the partition of a row, where the watermark stands."),
    Setting(_GRANULE, None, "Width of the event-time grid on which rows are counted."),
    Setting(
        _LATE_FOLDER,
        None,
        "Where the rows that Spark drops as late are kept, those of each stream in a folder of its name in this one; "
        "unless set they are counted and dropped.",
    ),
    Setting(_LATE_DIMENSION, None, "Column by whose values all rows and those that are lost are counted."),
    Setting(_FUTURE_ROWS, "clamp", "In Live, what becomes of future-dated rows: `clamp` or `aside`."),
    Setting(_FUTURE_ALLOWANCE, "1 minute", "How far ahead a row may be dated and still be taken as it is."),
)
"""They are read beside those of ``SETTINGS``; without ``NAME`` all but ``spark.tidemark.name`` are of every stream."""

_OF_CONTEXT = {setting.key for setting in (*SETTINGS, *ATTACH_SETTINGS) if setting.of_context}
_DEFAULTS = {setting.key: setting.default for setting in ATTACH_SETTINGS}

_UNNAMED = re.compile(
    r"pyspark-shell|spark shell|spark connect server|connect|spark-connect|unnamed|org\.apache\.spark\..*"
    r"|sparksql::.*|thrift jdbc/odbc server|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
"""Names of applications that nobody gave: Spark's shells and servers, their classes, and a random id."""

Conf = Callable[[str, str | None], str | None]
"""Returns the value of a conf key, or the given default."""


class StreamConf:
    """The conf of one stream.

    Args:
        session: reads the conf of the query's session, which a client of Spark Connect may set.
        context: reads that of the context, which whoever starts the driver sets.
        found: the stream's name before it is renamed.
    """

    def __init__(self, session: Conf, context: Conf, found: str) -> None:
        self._session, self._context, self._found = session, context, found

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the value of a key."""
        if key in _OF_CONTEXT:
            return self._context(key, default)
        return self.of_stream(key) or self._session(key, None) or default

    def of_stream(self, key: str) -> str | None:
        """Return what the conf says of this stream alone."""
        return self._session(f"{OF_STREAM}{self._found}.{key.removeprefix(PREFIX)}", None)

    def of_call(self, key: str) -> str | None:
        """Return the value of one of ``ATTACH_SETTINGS``, or its default."""
        return self.get(key, _DEFAULTS[key])


@dataclass(frozen=True, slots=True)
class StreamCall:
    """What the conf says of a stream."""

    settings: JobSettings
    own_bound: str
    late_folder: str | None
    late_dimension: str | None
    call: dict[str, Any]
    """The other arguments of ``adaptive_watermark``."""


def read_conf(conf: StreamConf, found: str, place: str, own_bound: str) -> StreamCall | None:
    """Return what the conf says of a stream; None where it is to be left as it is.

    Args:
        conf: the stream's.
        found: its name before it is renamed.
        place: the query's name or the end of its checkpoint, for a job that has no name; may be empty.
        own_bound: the bound that the query has.

    Raises:
        ValueError: when a value is wrong.
    """
    if not flag(_ENABLED, conf.of_call(_ENABLED) or "true"):
        return None
    job = conf.get("spark.tidemark.job") or _job_named(conf.get("spark.app.name"), place)
    # One name for all streams would make one of several.
    settings = JobSettings.read(conf.get, job=job, stream=conf.of_stream(_NAME) or found)
    mode = conf.of_call(_MODE)
    bound = conf.of_call(_BOUND) or own_bound
    return StreamCall(
        replace(settings, may_reject=False),
        bound,
        conf.of_call(_LATE_FOLDER),
        conf.of_call(_LATE_DIMENSION),
        {
            "mode": cast("Mode", mode),
            "ceiling": conf.of_call(_CEILING),
            "idle_timeout": conf.of_call(_IDLE_TIMEOUT),
            "partition": conf.of_call(_PARTITION),
            "granule": conf.of_call(_GRANULE),
            "future_rows": cast("Treatment", conf.of_call(_FUTURE_ROWS)),
            "future_allowance": conf.of_call(_FUTURE_ALLOWANCE),
        },
    )


def _job_named(application: str | None, place: str) -> str:
    """Return a job's name that a restart finds again: its application's, if somebody gave it one."""
    if application and not _UNNAMED.fullmatch(application.strip()):
        return fitting(application)
    return place or "unnamed"
