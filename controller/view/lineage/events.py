"""What an event says of a run, in OpenLineage's terms: a job is a stream of a Spark job, which is its parent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import data_quality_metrics_input_dataset, job_type_job, parent_run

from tidemark.models.base.target import PPM
from tidemark.models.completeness.outcome import Window
from tidemark.models.protocol.datasets import Datasets

NAMESPACE = "tidemark"
"""The namespace of all jobs."""

FACET = "tidemark_completeness"
"""Key of the facet that says how complete the windows are."""

SCHEMA = "TidemarkCompletenessDatasetFacet-1.json"
"""File of its schema, in this folder; the controller serves it below ``/schemas``. It is never changed."""

_STORES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
_KEYS = {"s3", "gs", "abfss", "wasbs", "kafka"}
"""Schemes whose names begin with no stroke, and those that OpenLineage calls by another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRun:
    """The newest run of a stream, and how complete its windows are."""

    job: str
    stream: str
    run_id: str
    """Spark's id of the run."""
    started_us: int
    """When it began, in microseconds since the epoch."""
    seen_us: int
    """When its newest batch did."""
    datasets: Datasets
    closed: Window | None = None
    """The newest closed window; None without any."""
    settled_us: int | None = None
    """End of the newest one that is settled, too."""


def run_event(run: StreamRun, state: RunState, at_us: int, address: str) -> RunEvent:
    """Return an event on a run.

    Args:
        state: what the run does.
        at_us: since when, or as of when, in microseconds.
        address: the controller's, which makes the event and serves the facet's schema.
    """
    spark_run = _uuid(run.run_id)
    parent = parent_run.ParentRunFacet(
        run=parent_run.Run(str(spark_run)), job=parent_run.Job(NAMESPACE, run.job), producer=address
    )
    kind = job_type_job.JobTypeJobFacet("STREAMING", "SPARK", "QUERY", producer=address)
    facets: dict[str, Any] = {} if run.closed is None else {FACET: _completeness(run, run.closed, address)}
    outputs = [name_of(run.datasets.output)] if run.datasets.output else []
    inputs = [name_of(each) for each in run.datasets.inputs]
    # Rows are counted by stream: of several inputs nobody knows how many each has.
    counts: dict[str, Any] = {}
    if run.closed is not None and len(inputs) == 1:
        counts["dataQualityMetrics"] = data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
            columnMetrics={}, rowCount=run.closed.rows, lastUpdated=_time(run.seen_us), producer=address
        )
    return RunEvent(
        eventType=state,
        eventTime=_time(at_us) or "",
        producer=address,
        run=Run(str(uuid5(spark_run, f"{run.job}/{run.stream}")), {"parent": parent}),
        job=Job(NAMESPACE, f"{run.job}.{run.stream}", {"jobType": kind}),
        inputs=[InputDataset(*name, inputFacets=counts, facets={} if outputs else facets) for name in inputs],
        outputs=[OutputDataset(*name, facets=facets) for name in outputs],
    )


def name_of(address: str) -> tuple[str, str]:
    """Return the namespace and the name of a dataset by OpenLineage's rules, from the address that its job sent."""
    scheme, _, rest = address.partition(":")
    scheme = _STORES.get(scheme, scheme)
    authority, stroke, path = (
        rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "", rest)
    )
    name = path if scheme in _KEYS else stroke + path
    return f"{scheme}://{authority}" if authority else scheme, name.rstrip("/") or "/"


def _completeness(run: StreamRun, window: Window, address: str) -> dict[str, Any]:
    """Return the facet; what is null in it the client leaves out."""
    estimate = window.estimate
    return {
        "_producer": address,
        "_schemaURL": f"{address}/schemas/{SCHEMA}#/$defs/{SCHEMA.partition('-')[0]}",
        "job": run.job,
        "stream": run.stream,
        "asOf": _time(run.seen_us),
        "settledWindowEnd": _time(run.settled_us),
        "closedWindowEnd": _time(window.end_us),
        "rows": window.rows,
        "lateRowsMin": window.late_min,
        "lateRowsMax": window.late_max,
        "countedShareMin": _share(window.counted_min_ppm),
        "countedShareMax": _share(window.counted_max_ppm),
        "cameShare": None if estimate is None else _share(estimate.came_ppm),
        "cameShareMin": None if estimate is None else _share(estimate.came_min_ppm),
        "cameShareMax": None if estimate is None else _share(estimate.came_max_ppm),
        "askedShare": _share(window.asked_ppm),
        "unknown": window.unknown,
    }


def _share(ppm: int | None) -> float | None:
    return None if ppm is None else ppm / PPM


def _time(time_us: int | None) -> str | None:
    """Return a time as RFC 3339 writes it; None of a year that it cannot write."""
    with suppress(OverflowError):
        if time_us is not None:
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).isoformat()
    return None


def _uuid(name: str) -> UUID:
    """Return a name as a UUID, which Spark's ids are."""
    try:
        return UUID(name)
    except ValueError:
        return uuid5(NAMESPACE_OID, name)
