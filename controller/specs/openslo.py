"""SLOs as OpenSLO v1, with the metrics that Prometheus has of them.

OpenSLO's own names hold small letters, digits and dashes, up to 63 of them; ours may hold anything. So a name is made
of ours, with a digest behind it where letters were lost, and the display name is ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tidemark.controller.api.schemas import SloAnswer
from tidemark.models.target import PPM

__all__ = ["openslo_documents", "openslo_text"]

API_VERSION = "openslo/v1"
LONGEST_NAME = 63
DIGEST_CHARACTERS = 8

_MINUTE_MS = 60_000
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (_MINUTE_MS, "m"))

SLICE = "1m"
"""Length of a slice as OpenSLO wants one; ours are the windows of the job, whatever they are."""


def openslo_documents(slos: Iterable[tuple[str, str, SloAnswer]]) -> Iterator[dict[str, Any]]:
    """Return a Service for each job, and an SLI and an SLO for each stream, given as job, stream and SLO."""
    found: set[str] = set()
    for job, stream, slo in slos:
        if job not in found:
            found.add(job)
            yield _document("Service", _name(job), job, {"description": f"Spark job {job}"[:1_050]})
        yield _document("SLI", _name(job, stream), f"{job}/{stream}", _indicator(job, stream))
        yield _document("SLO", _name(job, stream), f"{job}/{stream}", _objective(job, stream, slo))


def openslo_text(slos: Iterable[tuple[str, str, SloAnswer]]) -> str:
    """Return the same as YAML, one document after another."""
    import yaml  # noqa: PLC0415 - the other commands start fast without it

    return str(
        yaml.safe_dump_all(openslo_documents(slos), sort_keys=False, explicit_start=True, allow_unicode=True)
    )


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
            # Replicas say the same.
            "good": _source(f"max(tidemark_rows_admitted_total{which})"),
            "total": _source(f"max(tidemark_rows_judged_total{which})"),
        },
    }


def _source(query: str) -> dict[str, Any]:
    return {"metricSource": {"type": "Prometheus", "spec": {"query": query}}}


def _objective(job: str, stream: str, slo: SloAnswer) -> dict[str, Any]:
    objective: dict[str, Any] = {"displayName": "completeness", "target": slo.target_ppm / PPM}
    reason = "Share of the rows that are admitted before their window closes."
    method = "Occurrences"
    if slo.objective == "timeslices":
        method = "Timeslices"
        objective = {
            "displayName": "windows that are complete",
            # OpenSLO takes no target of all of them.
            "target": min(slo.good_windows_ppm, PPM - 1) / PPM,
            "timeSliceTarget": slo.target_ppm / PPM,
            "timeSliceWindow": SLICE,
        }
        reason = (
            "Share of the windows that keep the target's share of their rows; a slice is a window of the job."
        )
    return {
        "description": reason,
        "service": _name(job),
        "indicatorRef": _name(job, stream),
        "timeWindow": [{"duration": _duration(slo.window_ms), "isRolling": True}],
        "budgetingMethod": method,
        "objectives": [objective],
    }


def _duration(window_ms: int) -> str:
    """Return a length of time as OpenSLO writes one, rounded to whole minutes: it knows none shorter."""
    whole_ms = max(round(window_ms / _MINUTE_MS), 1) * _MINUTE_MS
    return next(f"{whole_ms // unit_ms}{unit}" for unit_ms, unit in _UNITS if whole_ms % unit_ms == 0)


def _name(*names: str) -> str:
    wanted = "-".join(names)
    name = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")
    # With a dash between, two names may read as others do.
    if name == wanted and len(name) <= LONGEST_NAME and not any("-" in each for each in names[:-1]):
        return name
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:DIGEST_CHARACTERS]
    room = LONGEST_NAME - DIGEST_CHARACTERS - 1
    return f"{name[:room].strip('-')}-{digest}".strip("-")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
