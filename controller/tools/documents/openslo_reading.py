"""SLOs in documents of OpenSLO v1 as people and other tools write them.

A document may be meant for several tools. What says how others measure (``indicator``) or whom they alert
(``alertPolicies``) is theirs. What would change the goal is taken as it is meant, or refused with what to write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tidemark.controller.tools.documents.openslo import ANNOTATED, API_VERSION, PREFIX, SLICE_LENGTH
from tidemark.models.base.target import PPM, parse_share
from tidemark.models.specs.slo import MAX_WINDOW_MS

_TEXTS = {"on_conflict"}
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_AT_LEAST = ("gt", "gte")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class _Window(_Part):
    duration: str
    is_rolling: bool | None = None
    calendar: Any = None

    @property
    def on_calendar(self) -> bool:
        """Whether the budget is to begin anew with each window."""
        return self.is_rolling is False or self.calendar is not None


def _of_percent(value: Any) -> Any:
    """Return the share that a text in percent says; any other value as it is."""
    if not isinstance(value, str) or not value.strip().endswith("%"):
        return value
    return Decimal(parse_share(value)) / PPM


class _Objective(_Part):
    display_name: str | None = None
    op: str | None = None
    value: Any = None
    # As everywhere, 99.5% is taken too.
    target: Annotated[Decimal, BeforeValidator(_of_percent)] | None = None
    target_percent: Decimal | None = None
    time_slice_target: Decimal | None = None
    time_slice_window: str | int | None = None
    # As in the whole SLO; a weight among one means nothing.
    indicator: Any = None
    indicator_ref: str | None = None
    composite_weight: Any = None


class _Spec(_Part):
    objectives: Annotated[list[_Objective], Field(min_length=1)]
    # OpenSLO requires it, and its own example leaves it out.
    budgeting_method: Literal["Occurrences", "Timeslices", "RatioTimeslices"] = "Occurrences"
    time_window: list[_Window] | None = None
    description: str | None = None
    service: str | None = None
    # How it is measured is Tidemark's own business.
    indicator: Any = None
    indicator_ref: str | None = None
    alert_policies: list[Any] | None = None


class _Metadata(_Part):
    name: str
    display_name: str | None = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, str] | None = None


class _SloDocument(_Part):
    api_version: Literal["openslo/v1"]
    kind: Literal["SLO"]
    metadata: _Metadata
    spec: _Spec


@dataclass(frozen=True, slots=True)
class SloRead:
    """What a document says."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    fields: dict[str, Any]
    """The given fields of the SLO, by their names in the REST interface."""
    notes: tuple[str, ...]
    """What is not quite as the document says, although it can be meant so."""


def read_slo(document: dict[str, Any]) -> SloRead:
    """Return what the document of an SLO says.

    Raises:
        pydantic.ValidationError: when it is no SLO of OpenSLO v1.
        ValueError: when it cannot be meant for Tidemark as it stands, with all that is wrong and what to write.
    """
    version = document.get("apiVersion")
    if version != API_VERSION:
        raise ValueError(
            f"/apiVersion: {version} is another version of OpenSLO; write apiVersion: {API_VERSION}, with "
            "timeWindow: [{duration: 30d, isRolling: true}] and objectives: [{target: 0.995}]"
        )
    slo = _SloDocument.model_validate(document)
    annotations = {
        name.removeprefix(PREFIX): text
        for name, text in (slo.metadata.annotations or {}).items()
        if name.startswith(PREFIX)
    }
    spec = slo.spec
    problems = [
        *_annotation_problems(annotations),
        *_window_problems(spec.time_window or []),
        *_objective_problems(spec.objectives, spec.budgeting_method),
    ]
    if problems:
        raise ValueError("; ".join(problems))
    fields: dict[str, Any] = {}
    for window in spec.time_window or []:
        fields["window_ms"] = _window_ms(window.duration)
    fields |= _shares(spec.objectives[0], spec.budgeting_method)
    for name in annotations.keys() & set(ANNOTATED):
        # An annotation is more exact than a field of OpenSLO, which has only minutes, and no target of 1.
        fields[name] = annotations[name] if name in _TEXTS else int(annotations[name])
    return SloRead(annotations["job"], annotations["stream"], fields, tuple(_notes(spec)))


def _notes(spec: _Spec) -> Iterator[str]:
    for number, window in enumerate(spec.time_window or []):
        if window.on_calendar:
            # Who meets the target in every rolling window meets it in each of the calendar.
            yield (
                f"/spec/timeWindow/{number}: the budget is that of the last {window.duration} at any time, and does "
                "not begin anew with the calendar"
            )
    if spec.alert_policies:
        yield "/spec/alertPolicies is not read: Tidemark has alerts of its own"


def _annotation_problems(annotations: dict[str, str]) -> Iterator[str]:
    place = "/metadata/annotations"
    missing = [name for name in ("job", "stream") if name not in annotations]
    if missing:
        yield (
            f"{place}: {' and '.join(PREFIX + name for name in missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing; write the {' and the '.join(missing)} that the SLO is "
            "for, such as {tidemark/job: shop, tidemark/stream: clicks}"
        )
    for name in sorted(annotations.keys() - {"job", "stream"}):
        if name not in ANNOTATED:
            yield f"{place}: {PREFIX}{name} is not one of {', '.join(PREFIX + one for one in ANNOTATED)}"
        elif name not in _TEXTS and not re.fullmatch(r"[0-9]+", annotations[name]):
            yield f"{place}/{PREFIX.replace('/', '~1')}{name}: {annotations[name]!r} is not a whole number"


def _window_problems(windows: list[_Window]) -> Iterator[str]:
    if len(windows) > 1:
        yield f"/spec/timeWindow: an SLO has one window, not {len(windows)}; keep one"
    for number, window in enumerate(windows):
        if (_window_ms(window.duration) or MAX_WINDOW_MS + 1) > MAX_WINDOW_MS:
            yield (
                f"/spec/timeWindow/{number}/duration: {window.duration!r} is not a number of m, h, d or w up to 31 "
                "days; write days, such as 30d for a month"
            )


def _window_ms(duration: str) -> int | None:
    match = re.fullmatch(r"([1-9][0-9]*)([mhdw])", duration)
    return None if match is None else int(match[1]) * _UNIT_MS[match[2]]


def _objective_problems(objectives: list[_Objective], method: str) -> Iterator[str]:
    place = "/spec/objectives"
    if len(objectives) > 1:
        yield f"{place}: a stream has one objective, not {len(objectives)}; keep the one to steer by"
        return
    (objective,) = objectives
    place = f"{place}/0"
    if objective.value is not None:
        yield (
            f"{place}/value: a threshold of a metric says nothing of completeness, the share of the rows that are "
            "admitted; write only the share as target, without op and value"
        )
    elif objective.op not in {None, *_AT_LEAST}:
        yield f"{place}/op: {objective.op}: completeness is to be at least the target; leave op out"
    if (objective.target is None) == (objective.target_percent is None):
        yield f"{place}: give target, such as 0.995, or targetPercent"
    yield from _share_problems(objective, place)
    if method == "RatioTimeslices":
        yield (
            "/spec/budgetingMethod: the mean over time slices is not judged; write Occurrences for the share of all "
            "rows, or Timeslices with timeSliceTarget for the share of windows that reach it"
        )
    elif method == "Occurrences" and objective.time_slice_target is not None:
        yield f"{place}/timeSliceTarget: it belongs to budgetingMethod Timeslices"
    elif method == "Timeslices" and objective.time_slice_target is None:
        yield f"{place}/timeSliceTarget: it is missing, the share of the rows that each window needs"
    if objective.time_slice_window not in {None, SLICE_LENGTH}:
        yield (
            f"{place}/timeSliceWindow: {objective.time_slice_window}: a slice is a window of the job, as long as its "
            f"query makes it; write {SLICE_LENGTH}, which stands for it"
        )


def _share_problems(objective: _Objective, place: str) -> Iterator[str]:
    for name in ("target", "target_percent", "time_slice_target"):
        share = getattr(objective, name)
        if share is None:
            continue
        ppm = _ppm(share / 100 if name == "target_percent" else share)
        if ppm is None:
            yield f"{place}/{to_camel(name)}: {share} is finer than one part per million"
        elif not 0 < ppm < PPM:
            most = 100 if name == "target_percent" else 1
            in_percent = (
                f"; in percent write targetPercent: {share}" if PPM < ppm < 100 * PPM and most == 1 else ""
            )
            yield f"{place}/{to_camel(name)}: {share} must lie between 0 and {most}, both excluded{in_percent}"


def _shares(objective: _Objective, method: str) -> dict[str, Any]:
    share = objective.target
    target = _ppm(share if share is not None else (objective.target_percent or Decimal(0)) / 100)
    if method == "Occurrences":
        return {"objective": "occurrences", "target_ppm": target}
    assert objective.time_slice_target is not None
    return {
        "objective": "timeslices",
        "target_ppm": _ppm(objective.time_slice_target),
        "good_windows_ppm": target,
    }


def _ppm(share: Decimal) -> int | None:
    """Return a share in parts per million; None when it is no whole number of them."""
    ppm = share * PPM
    return int(ppm) if ppm.is_finite() and ppm == ppm.to_integral_value() else None
