"""SLOs as documents of OpenSLO v1, written with queries of the Prometheus metrics; ``openslo_reading`` reads them.

OpenSLO has the target, the window and the objective. What it has no field for stands in annotations under the names
that the REST interface has: ``tidemark/job``, ``tidemark/stream``, ``tidemark/latency_cap_ms`` and so on, so that what
is written is read back as the same SLO.

Names in OpenSLO have lower-case letters, digits and dashes, at most 63; names of jobs and streams are free. A name is
derived from ours, with a digest appended where characters were lost; the display name is ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from tidemark.models.base.target import PPM
from tidemark.models.specs.fields import defaults_of, spec_fields
from tidemark.models.specs.slo import Slo

PREFIX = "tidemark/"
"""What the name of an annotation of ours begins with."""

API_VERSION = "openslo/v1"
"""The version of OpenSLO that is written and read."""

ANNOTATED = tuple(one.name for one in spec_fields(Slo) if one.name not in {"target_ppm", "objective"})
"""Fields of an SLO that an annotation can give."""

_MAX_NAME_LENGTH = 63
_DIGEST_CHARACTERS = 8

_MINUTE_MS = 60_000
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (_MINUTE_MS, "m"))

SLICE_LENGTH = "1m"
"""What stands for the length of a time slice, which OpenSLO requires: a slice is a window of the job."""


def openslo_documents(slos: Iterable[tuple[str, str, Slo]]) -> Iterator[dict[str, Any]]:
    """Yield a Service for each job, and an SLI and an SLO for each stream; takes (job, stream, SLO) triples."""
    jobs: set[str] = set()
    for job, stream, slo in slos:
        if job not in jobs:
            jobs.add(job)
            yield _document("Service", dashed_name(job), job, {"description": f"Spark job {job}"[:1_050]})
        yield _document("SLI", dashed_name(job, stream), f"{job}/{stream}", _indicator(job, stream))
        document = _document("SLO", dashed_name(job, stream), f"{job}/{stream}", _objective(job, stream, slo))
        document["metadata"]["annotations"] = dict(_annotations(job, stream, slo))
        yield document


def documents_text(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as one YAML text."""
    # Off is quoted: readers of YAML 1.1 take it for a boolean.
    return str(yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True, allow_unicode=True))


def _document(kind: str, name: str, shown: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "displayName": shown},
        "spec": spec,
    }


def _indicator(job: str, stream: str) -> dict[str, Any]:
    which = f"{{spark_job={_quoted(job)},stream={_quoted(stream)}}}"
    return {
        "description": "(Row, key) pairs that were admitted, of those that were judged by Spark's late rule.",
        "ratioMetric": {
            "counter": True,
            # Replicas export the same counters.
            "good": _source(f"max(tidemark_rows_admitted_total{which})"),
            "total": _source(f"max(tidemark_rows_judged_total{which})"),
        },
    }


def _source(query: str) -> dict[str, Any]:
    return {"metricSource": {"type": "Prometheus", "spec": {"query": query}}}


def _objective(job: str, stream: str, slo: Slo) -> dict[str, Any]:
    objective: dict[str, Any] = {"displayName": "completeness", "target": slo.target_ppm / PPM}
    description = "Share of the rows that are admitted before their window closes."
    method = "Occurrences"
    if slo.objective == "timeslices":
        method = "Timeslices"
        objective = {
            "displayName": "windows that are complete",
            # OpenSLO allows no target of 1.
            "target": min(slo.good_windows_ppm, PPM - 1) / PPM,
            "timeSliceTarget": slo.target_ppm / PPM,
            "timeSliceWindow": SLICE_LENGTH,
        }
        description = "Share of the windows that reach the target; a time slice is a window of the job."
    return {
        "description": description,
        "service": dashed_name(job),
        "indicatorRef": dashed_name(job, stream),
        "timeWindow": [{"duration": _duration(slo.window_ms), "isRolling": True}],
        "budgetingMethod": method,
        "objectives": [objective],
    }


def _annotations(job: str, stream: str, slo: Slo) -> Iterator[tuple[str, str]]:
    yield f"{PREFIX}job", job
    yield f"{PREFIX}stream", stream
    defaults = defaults_of(Slo)
    annotations = {name: getattr(slo, name) for name in ANNOTATED if getattr(slo, name) != defaults[name]}
    if slo.window_ms % _MINUTE_MS == 0:
        annotations.pop("window_ms", None)
    if slo.objective == "timeslices" and slo.good_windows_ppm < PPM:
        annotations.pop("good_windows_ppm", None)
    yield from ((PREFIX + name, str(value)) for name, value in annotations.items())


def _duration(window_ms: int) -> str:
    """Return a duration in OpenSLO's notation, rounded to whole minutes, its shortest unit."""
    whole_ms = max(round(window_ms / _MINUTE_MS), 1) * _MINUTE_MS
    return next(f"{whole_ms // unit_ms}{unit}" for unit_ms, unit in _UNITS if whole_ms % unit_ms == 0)


def dashed_name(*names: str) -> str:
    """Return a name of lower-case letters, digits and dashes, at most 63, that no other names have."""
    plain = "-".join(names)
    name = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    # A dash in the first name would make the joined name ambiguous.
    if name == plain and len(name) <= _MAX_NAME_LENGTH and not any("-" in part for part in names[:-1]):
        return name
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    room = _MAX_NAME_LENGTH - _DIGEST_CHARACTERS - 1
    return f"{name[:room].strip('-')}-{digest}".strip("-")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
