"""SLOs as documents of OpenSLO v1, written with queries of the Prometheus metrics, and read as a person writes them.

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
from decimal import Decimal
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tidemark.models.base.target import PPM
from tidemark.models.specs.fields import defaults_of
from tidemark.models.specs.slo import Slo

PREFIX = "tidemark/"
"""What the name of an annotation of ours begins with."""

ANNOTATED = (
    "window_ms",
    "latency_cap_ms",
    "on_conflict",
    "confidence_ppm",
    "horizon_ms",
    "good_windows_ppm",
    "state_cap_rows",
    "worst_window_ppm",
)
"""Fields of an SLO that an annotation can give."""

_API_VERSION = "openslo/v1"
_MAX_NAME_LENGTH = 63
_DIGEST_CHARACTERS = 8

_MINUTE_MS = 60_000
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (_MINUTE_MS, "m"))

_SLICE_LENGTH = "1m"
"""OpenSLO requires a fixed length of a time slice; here the windows of the job are judged."""


def openslo_documents(slos: Iterable[tuple[str, str, Slo]]) -> Iterator[dict[str, Any]]:
    """Yield a Service for each job, and an SLI and an SLO for each stream; takes (job, stream, SLO) triples."""
    found: set[str] = set()
    for job, stream, slo in slos:
        if job not in found:
            found.add(job)
            yield _document("Service", _name(job), job, {"description": f"Spark job {job}"[:1_050]})
        yield _document("SLI", _name(job, stream), f"{job}/{stream}", _indicator(job, stream))
        document = _document("SLO", _name(job, stream), f"{job}/{stream}", _objective(job, stream, slo))
        document["metadata"]["annotations"] = dict(_annotations(job, stream, slo))
        yield document


def documents_text(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as one YAML text."""
    # Off is quoted: readers of YAML 1.1 take it for a boolean.
    return str(yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True, allow_unicode=True))


def _document(kind: str, name: str, shown: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
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
            "timeSliceWindow": _SLICE_LENGTH,
        }
        description = "Share of the windows that reach the target; a time slice is a window of the job."
    return {
        "description": description,
        "service": _name(job),
        "indicatorRef": _name(job, stream),
        "timeWindow": [{"duration": _duration(slo.window_ms), "isRolling": True}],
        "budgetingMethod": method,
        "objectives": [objective],
    }


def _annotations(job: str, stream: str, slo: Slo) -> Iterator[tuple[str, str]]:
    yield f"{PREFIX}job", job
    yield f"{PREFIX}stream", stream
    defaults = defaults_of(Slo)
    given = {name: getattr(slo, name) for name in ANNOTATED if getattr(slo, name) != defaults[name]}
    if slo.window_ms % _MINUTE_MS == 0:
        given.pop("window_ms", None)
    if slo.objective == "timeslices" and slo.good_windows_ppm < PPM:
        given.pop("good_windows_ppm", None)
    yield from ((PREFIX + name, str(value)) for name, value in given.items())


def _duration(window_ms: int) -> str:
    """Return a duration in OpenSLO's notation, rounded to whole minutes, its shortest unit."""
    whole_ms = max(round(window_ms / _MINUTE_MS), 1) * _MINUTE_MS
    return next(f"{whole_ms // unit_ms}{unit}" for unit_ms, unit in _UNITS if whole_ms % unit_ms == 0)


def _name(*names: str) -> str:
    plain = "-".join(names)
    name = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    # A dash in the first name would make the joined name ambiguous.
    if name == plain and len(name) <= _MAX_NAME_LENGTH and not any("-" in each for each in names[:-1]):
        return name
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    room = _MAX_NAME_LENGTH - _DIGEST_CHARACTERS - 1
    return f"{name[:room].strip('-')}-{digest}".strip("-")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


# -- reading -----------------------------------------------------------------------------------------------------------

_TEXTS = {"on_conflict"}
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class _Window(_Part):
    duration: str
    is_rolling: Literal[True]


def _of_percent(value: Any) -> Any:
    """Return the share that a text in percent says; any other value as it is."""
    percent = value.strip() if isinstance(value, str) else ""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)? ?%", percent):
        return value
    return Decimal(percent.removesuffix("%").rstrip()) / 100


class _Objective(_Part):
    display_name: str | None = None
    # As everywhere, 99.5% is taken too.
    target: Annotated[Decimal, BeforeValidator(_of_percent)] | None = None
    target_percent: Decimal | None = None
    time_slice_target: Decimal | None = None
    time_slice_window: str | None = None


class _Spec(_Part):
    objectives: Annotated[list[_Objective], Field(min_length=1, max_length=1)]
    budgeting_method: Literal["Occurrences", "Timeslices"]
    time_window: Annotated[list[_Window], Field(max_length=1)] = []
    description: str | None = None
    service: str | None = None
    # How it is measured is Tidemark's own business.
    indicator: Any = None
    indicator_ref: str | None = None


class _Metadata(_Part):
    name: str
    display_name: str | None = None
    labels: dict[str, Any] = {}
    annotations: dict[str, str] = {}


class _SloDocument(_Part):
    api_version: Literal["openslo/v1"]
    kind: Literal["SLO"]
    metadata: _Metadata
    spec: _Spec


def read_slo(document: object) -> tuple[str, str, dict[str, Any]]:
    """Return the job, the stream and the given fields of the SLO in a document, by their names in the REST interface.

    Raises:
        pydantic.ValidationError: when it is no SLO of OpenSLO v1, or has what Tidemark has no counterpart for.
        ValueError: when an annotation or a number cannot be read.
    """
    found = _SloDocument.model_validate(document)
    given = {
        name.removeprefix(PREFIX): text
        for name, text in found.metadata.annotations.items()
        if name.startswith(PREFIX)
    }
    names = [_named(given, "job"), _named(given, "stream")]
    unknown = sorted(given.keys() - set(ANNOTATED))
    if unknown:
        known = ", ".join(PREFIX + name for name in ANNOTATED)
        raise ValueError(f"/metadata/annotations: {PREFIX}{unknown[0]} is not one of {known}")
    fields: dict[str, Any] = {}
    for window in found.spec.time_window:
        fields["window_ms"] = _milliseconds(window.duration)
    (objective,) = found.spec.objectives
    fields |= _shares(objective, found.spec.budgeting_method)
    for name, text in given.items():
        # An annotation is more exact than a field of OpenSLO, which has only minutes, and no target of 1.
        fields[name] = text if name in _TEXTS else _number(name, text)
    return names[0], names[1], fields


def _named(given: dict[str, str], what: str) -> str:
    try:
        return given.pop(what)
    except KeyError:
        raise ValueError(
            f"/metadata/annotations: {PREFIX}{what} is missing, the name of the {what} that the SLO is for"
        ) from None


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise ValueError(
            f"/metadata/annotations/{PREFIX.replace('/', '~1')}{name}: {text!r} is not a whole number"
        )
    return int(text)


def _shares(objective: _Objective, method: str) -> dict[str, Any]:
    if (objective.target is None) == (objective.target_percent is None):
        raise ValueError("/spec/objectives/0: give target, such as 0.995, or targetPercent")
    target = (
        _ppm("target", objective.target)
        if objective.target is not None
        else _ppm("targetPercent", (objective.target_percent or Decimal(0)) / 100)
    )
    if method == "Occurrences":
        if objective.time_slice_target is not None:
            raise ValueError("/spec/objectives/0/timeSliceTarget: it belongs to budgetingMethod Timeslices")
        return {"objective": "occurrences", "target_ppm": target}
    if objective.time_slice_target is None:
        raise ValueError(
            "/spec/objectives/0/timeSliceTarget: it is missing, the share of the rows that each window needs"
        )
    return {
        "objective": "timeslices",
        "target_ppm": _ppm("timeSliceTarget", objective.time_slice_target),
        "good_windows_ppm": target,
    }


def _ppm(name: str, share: Decimal) -> int:
    where, found = f"/spec/objectives/0/{name}", share * PPM
    if not found.is_finite() or found != found.to_integral_value():
        raise ValueError(f"{where}: {share} is finer than one part per million")
    if not 0 < found < PPM:
        in_percent = f"; in percent write targetPercent: {share}" if PPM < found < 100 * PPM else ""
        raise ValueError(f"{where}: {share} must lie between 0 and 1, both excluded{in_percent}")
    return int(found)


def _milliseconds(duration: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]*)([mhdw])", duration)
    if found is None:
        raise ValueError(
            f"/spec/timeWindow/0/duration: {duration!r} is not a number of m, h, d or w, such as 30d"
        )
    return int(found[1]) * _UNIT_MS[found[2]]
