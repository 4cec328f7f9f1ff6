"""A watermark of a query that starts, as the JVM has it, becomes one with tap and bound."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.spark_jobs.adaptive import adaptive_watermark
from tidemark.spark_jobs.attach.late import kept_in
from tidemark.spark_jobs.attach.names import place_of, sources_of, stream_name
from tidemark.spark_jobs.attach.settings import Conf, StreamConf, read_conf
from tidemark.spark_jobs.spark.event_time import quoted
from tidemark.spark_jobs.spark.jvm import DATASET, WATERMARK, find

_log = logging.getLogger("tidemark.spark")


def adapted(spark: SparkSession, context: Conf, write: Any, node: Any, taken: Any) -> Any:
    """Return the analysed plan that takes a watermark's place, in the JVM; None to leave the watermark.

    Args:
        spark: the session of the query.
        context: reads the conf of the context.
        write: the query, as ``WriteToStream``.
        node: the watermark, as ``EventTimeWatermark``.
        taken: names of the query's streams so far, as a list of Java; the stream's is added.

    Raises:
        ValueError: when a conf key is wrong, or the stream cannot be watched.
    """
    checkpoint = None if write.deleteCheckpointOnStop() else str(write.resolvedCheckpointLocation())
    place = place_of(write.name(), checkpoint)
    column = str(node.eventTime().name())
    found = stream_name(place, sources_of(node.child()), column, list(taken))
    taken.add(found)
    own_bound = f"{find(WATERMARK).getDelayMs(node.delay())} milliseconds"
    wanted = read_conf(StreamConf(spark.conf.get, context, found), found, place, own_bound)
    if wanted is None:
        return None
    child = DataFrame(find(DATASET).ofRows(spark._jsparkSession, node.child()), spark)  # noqa: SLF001 - Spark's own session
    late, stream = None, wanted.settings.stream
    if wanted.late_folder is not None:
        try:
            late = kept_in(wanted.late_folder, wanted.late_dimension, stream, child, write.child())
        except ValueError as error:
            _log.warning("stream %s: its late rows are counted and not kept: %s", stream, error)
    step = adaptive_watermark(
        quoted(column), wanted.own_bound, late=late, job_settings=wanted.settings, **wanted.call
    )
    return child.transform(step)._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above
