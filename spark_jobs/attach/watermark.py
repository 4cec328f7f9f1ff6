"""A watermark of a query that starts, as the JVM has it, becomes one with tap and bound."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.spark_jobs.adaptive import adaptive_watermark
from tidemark.spark_jobs.attach.names import place_of, sources_of, stream_name
from tidemark.spark_jobs.attach.settings import Conf, StreamCall, StreamConf, read_conf
from tidemark.spark_jobs.spark.checkpoint import Checkpoint, HadoopFiles, is_control
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
    if checkpoint is not None:
        wanted = _fitting(spark, checkpoint, wanted)
    step = adaptive_watermark(quoted(column), wanted.own_bound, job_settings=wanted.settings, **wanted.call)
    dataset = find(DATASET)
    child = DataFrame(dataset.ofRows(spark._jsparkSession, node.child()), spark)  # noqa: SLF001 - Spark's own session
    return child.transform(step)._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above


def _fitting(spark: SparkSession, checkpoint: str, wanted: StreamCall) -> StreamCall:
    """Return what the conf says with the control stream that a checkpoint has: Spark takes no other number of sources.

    Raises:
        LogFormatError: when its offset log cannot be read.
        Py4JJavaError: when the file system fails.
    """
    log = Checkpoint(HadoopFiles(spark, checkpoint)).offset_log()
    if not log:
        return wanted
    has_control = any(map(is_control, log[max(log)].offsets.values()))
    ceiling, mode = wanted.call["ceiling"], wanted.call["mode"]
    if has_control == (ceiling is not None or wanted.settings.closing is not None):
        return wanted
    if has_control:
        _log.warning("stream %s: its checkpoint has a control stream, which stays", wanted.settings.stream)
        return replace(wanted, call={**wanted.call, "ceiling": wanted.own_bound})
    _log.warning(
        "stream %s: its checkpoint was begun without a ceiling and takes no control stream: the bound moves when it "
        "starts; Live and close_at_end need a new checkpoint",
        wanted.settings.stream,
    )
    call = {**wanted.call, "ceiling": None, "mode": "OnRestart" if mode == "Live" else mode}
    return replace(wanted, settings=replace(wanted.settings, closing=None), call=call)
