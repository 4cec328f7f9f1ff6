"""Reads an SLO from an OpenSLO v1 document, as ``openslo`` writes it or as a person does.

OpenSLO has the target, the window and the objective. What it has no field for stands in annotations under the names
that the REST interface has: ``tidemark/job``, ``tidemark/stream``, ``tidemark/latency_cap_ms`` and so on.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tidemark.models.base.target import PPM

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

_TEXTS = {"on_conflict"}
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class _Window(_Part):
    duration: str
    is_rolling: Literal[True]


class _Objective(_Part):
    display_name: str | None = None
    target: Decimal | None = None
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


class _Document(_Part):
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
    found = _Document.model_validate(document)
    given = {
        name.removeprefix(PREFIX): text
        for name, text in found.metadata.annotations.items()
        if name.startswith(PREFIX)
    }
    names = [_name(given, "job"), _name(given, "stream")]
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


def _name(given: dict[str, str], what: str) -> str:
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
    found = share * PPM
    if not found.is_finite() or found != found.to_integral_value():
        raise ValueError(f"/spec/objectives/0/{name}: {share} is finer than one part per million")
    return int(found)


def _milliseconds(duration: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]*)([mhdw])", duration)
    if found is None:
        raise ValueError(
            f"/spec/timeWindow/0/duration: {duration!r} is not a number of m, h, d or w, such as 30d"
        )
    return int(found[1]) * _UNIT_MS[found[2]]
