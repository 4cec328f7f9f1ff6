"""Spark's private names: the classes that the driver looks up, and those that it reaches through objects."""

from __future__ import annotations

from tidemark.spark_jobs.spark.jvm import (
    ACTIVE,
    ALIAS,
    CHECKPOINT_FILES,
    COMPILER,
    DATASET,
    FAILURE,
    GAUGE,
    INITIALIZING,
    JOIN_HELPER,
    LISTENER,
    PLACEMENT,
    PROJECT,
    TERMINATED,
    WATERMARK,
    is_since,
    named,
)

__all__ = ["PRIVATE_NAMES", "TRIED"]

TRIED = ("3.5.9", "4.0.5", "4.1.4", "4.2.0", "4.3.0")
"""The versions of PySpark on which every name was tried."""

_SQL = "org.apache.spark.sql"
_STREAMING = f"{_SQL}.execution.streaming"
_CATALYST = f"{_SQL}.catalyst"
_EXECUTION = f"{_STREAMING}.runtime.MicroBatchExecution", f"{_STREAMING}.MicroBatchExecution"

_PLAN = "the operator in the plan; a declared one is trusted, and without one rows are not judged"
_QUERY = "the plan, trigger and logged watermarks of a query; rows are judged from its second batch on"
_CLOCK = "the stage of Live as one piece of compiled code; each row is copied once more"
_LIVE = "Live; the bound in the plan holds, and the log and the status say so"

_DATASETS = "the names of what a query reads and writes; OpenLineage events have neither"

PRIVATE_NAMES = (
    named(
        _QUERY,
        _EXECUTION[0],
        "id runId outputMode resolvedCheckpointRoot offsetLog sparkSessionForStream/sparkSession analyzedPlan trigger "
        "lastProgress recentProgress",
        _EXECUTION[1],
    ),
    named(
        _QUERY,
        f"{_STREAMING}.runtime.StreamingQueryWrapper",
        "streamingQuery",
        f"{_STREAMING}.StreamingQueryWrapper",
    ),
    named(
        _QUERY,
        f"{_STREAMING}.checkpointing.OffsetSeq",
        "metadataOpt/metadata",
        f"{_STREAMING}.OffsetSeq",
    ),
    named(
        _QUERY,
        f"{_STREAMING}.checkpointing.OffsetSeqMetadata",
        "batchWatermarkMs batchTimestampMs",
        f"{_STREAMING}.OffsetSeqMetadata",
    ),
    LISTENER,
    named(
        ACTIVE.without,
        _EXECUTION[0],
        "awaitProgressLock queryExecutionThread state status",
        _EXECUTION[1],
    ),
    ACTIVE,
    TERMINATED,
    named(FAILURE.without, _EXECUTION[0], "state streamDeathCause_$eq", _EXECUTION[1]),
    INITIALIZING,
    FAILURE,
    named(
        _LIVE,
        _EXECUTION[0],
        "awaitProgressLock noNewData watermarkTracker watermarkPropagator",
        _EXECUTION[1],
    ),
    named(
        _LIVE,
        f"{_STREAMING}.runtime.WatermarkTracker",
        "currentWatermark setWatermark",
        f"{_STREAMING}.WatermarkTracker",
    ),
    named(
        _LIVE,
        f"{_STREAMING}.runtime.WatermarkPropagator",
        "purge",
        f"{_STREAMING}.WatermarkPropagator",
    ),
    named(
        _LIVE,
        f"{_STREAMING}.runtime.MicroBatchExecutionContext",
        "isCurrentBatchConstructed",
        f"{_STREAMING}.MicroBatchExecutionContext" if is_since(4, 0) else _EXECUTION[1],
    ),
    named(_PLAN, f"{_CATALYST}.expressions.BindReferences", "bindReference"),
    named(_PLAN, f"{_CATALYST}.expressions.GenericInternalRow"),
    named(_PLAN, f"{_CATALYST}.expressions.package$AttributeSeq", "indexOf"),
    JOIN_HELPER,
    named(JOIN_HELPER.without, f"{_CATALYST}.analysis.StreamingJoinHelper", "getStateValueWatermark"),
    named(JOIN_HELPER.without, f"{_CATALYST}.analysis.UnsupportedOperationChecker", "checkForStreaming"),
    named(JOIN_HELPER.without, f"{_CATALYST}.planning.ExtractEquiJoinKeys", "unapply"),
    CHECKPOINT_FILES,
    COMPILER,
    PLACEMENT,
    DATASET,
    WATERMARK,
    named(
        DATASET.without,
        f"{_CATALYST}.streaming.WriteToStream",
        "name resolvedCheckpointLocation deleteCheckpointOnStop",
    ),
    named(PLACEMENT.without, f"{_SQL}.ExperimentalMethods", "extraOptimizations extraOptimizations_$eq"),
    PROJECT,
    named(PLACEMENT.without, f"{_CATALYST}.plans.logical.Filter", "condition"),
    ALIAS,
    named(_CLOCK, f"{_CATALYST}.expressions.ScalaUDF", "udfName children withNewChildren"),
    named(_CLOCK, f"{_CATALYST}.expressions.CurrentBatchTimestamp", "timestampMs"),
    named(_CLOCK, f"{_CATALYST}.plans.logical.LogicalPlan", "transformAllExpressions"),
    named(GAUGE.without, _EXECUTION[0], "isActive streamMetrics", _EXECUTION[1]),
    named(
        GAUGE.without,
        f"{_STREAMING}.runtime.MetricsReporter",
        "metricRegistry",
        f"{_STREAMING}.MetricsReporter",
    ),
    GAUGE,
    named(_DATASETS, _EXECUTION[0], "logicalPlan", _EXECUTION[1]),
    named(_DATASETS, f"{_STREAMING}.sources.WriteToMicroBatchDataSource", "table writeOptions"),
    named(_DATASETS, f"{_STREAMING}.sources.WriteToMicroBatchDataSourceV1", "catalogTable writeOptions"),
)
"""All of them, with what is done without each."""
