"""The conf of a job that does not call ``adaptive_watermark``: what a call would say, by stream where need be.

``NAME`` in ``spark.tidemark.stream.NAME.mode`` is the one that Tidemark gives the stream, before it is renamed. All of
it is a wish: what does not fit a stream is left out, with a line in the log and a condition of the stream.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from tidemark.spark_jobs.attach.names import lasting_part
from tidemark.spark_jobs.core.arguments import WrongValueError
from tidemark.spark_jobs.core.settings import Conf, JobSettings, fitting, key_of
from tidemark.spark_jobs.core.wishes import Wishes

_UNNAMED = re.compile(
    r"pyspark-shell|spark shell|spark connect server|connect|spark-connect|unnamed|org\.apache\.spark\..*"
    r"|sparksql::.*|thrift jdbc/odbc server|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
"""Names of applications that nobody gave: Spark's shells and servers, their classes, and a random id."""


def wishes_of(session: Conf, context: Conf, derived: str) -> Wishes:
    """Return the conf of a stream, without one name for all streams, which would make one of several.

    Args:
        session: reads the conf of the query's session.
        context: reads that of the context.
        derived: the stream's name before it is renamed.
    """
    wishes = Wishes(session, derived, context)
    for key in filter(lambda key: session(key, None), map(key_of, ("name", "stream"))):
        wishes.left_out[key] = (
            f"{key} is left out: one name for all streams would make one of several; write "
            f"{wishes.key_of_stream('name')}"
        )
    return wishes


def read_conf(
    wishes: Wishes,
    derived: str,
    place: str,
    own_bound: str,
    *,
    taken: Collection[str] = (),
    kept_job: str | None = None,
) -> JobSettings | None:
    """Return what the conf says of a stream; None where it is to be left as it is.

    Args:
        wishes: the stream's conf.
        derived: its name before it is renamed.
        place: the query's name or the end of its checkpoint, for a job that has no name; may be empty.
        own_bound: the bound that the query has.
        taken: names of the query's streams before this one.
        kept_job: the job that its checkpoint knows; None for none.

    Raises:
        WrongValueError: when a value is wrong.
    """
    job = wishes.get("job") or kept_job or _job_named(wishes.get("spark.app.name"), place)
    settings = wishes.settings({"job": job, "stream": derived})
    if settings.enabled is False:
        return None
    if settings.name in taken:
        raise WrongValueError("name", f"{settings.name!r} is another stream of the query")
    if (
        settings.late_dimension is not None
        and settings.late_folder is None
        and not wishes.lacks("late_folder")
    ):
        raise WrongValueError("late_dimension", f"it needs {key_of('late_folder')}, which is not set")
    if settings.mode == "Restart":
        raise WrongValueError(
            "mode", "mode Restart needs a call, and a runner; Off, OnRestart and Live need none"
        )
    # A request has to fit into the time that the start of a query may wait.
    limit_ms = settings.start_timeout // 2_000
    if settings.timeout_ms > limit_ms and wishes.get("timeout_ms") is not None:
        raise WrongValueError("timeout_ms", f"it must be at most half of {key_of('start_timeout')}")
    return replace(
        settings,
        called=False,
        stream=settings.name or derived,
        bound=settings.bound or own_bound,
        timeout_ms=min(settings.timeout_ms, limit_ms),
    )


def _job_named(application: str | None, place: str) -> str:
    """Return a job's name that a restart finds again: its application's, if somebody gave it one."""
    if application and not _UNNAMED.fullmatch(application.strip()):
        return fitting(lasting_part(application))
    return place or "unnamed"
