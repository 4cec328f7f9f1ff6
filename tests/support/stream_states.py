"""Stream states made by hand, for tests of what is computed from them."""

from __future__ import annotations

from typing import Any

from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    OverviewRow,
    PublishedRow,
    RecommendationRow,
    ReportRow,
    StreamRow,
)
from tidemark.controller.reports.live import NewestState
from tidemark.controller.specs.store import Spec
from tidemark.controller.view.state.state import NewestBatch, StreamState
from tidemark.models.completeness.outcome import NewestWindows
from tidemark.models.recommend.steps import Conflict, DecisionStep, StepKind
from tidemark.models.specs.slo import Policy, Slo

__all__ = ["NOW_US", "newest_windows", "stream_state"]

NOW_US = 1_767_225_600_000_000

_WELL: dict[str, Any] = {
    "job": "shop",
    "stream": "clicks",
    "late_max": 100,
    "unjudged_rows": 0,
    "registered_us": NOW_US,
    "objective": "occurrences",
    "target_ppm": 990_000,
    "window_ms": 30 * 86_400_000,
    "mode": "OnRestart",
    "paused": False,
    "freeze_windows": (),
    "worst_window_ppm": None,
    "remaining_ppm": 900_000,
    "windows": None,
    "received_us": NOW_US,
    "gap_us": 10_000_000,
    "in_use_bound_ms": 10_000,
    "watermark_ms": NOW_US // 1_000 - 10_000,
    "driver": NewestState(),
    "published_bound_ms": 10_000,
    "published_us": NOW_US,
    "generation": 1,
    "applied_generation": 1,
    "applied_bound_ms": 10_000,
    "ceiling_ms": None,
    "required_ms": 9_000,
    "recommended_bound_ms": 10_000,
    "conflict": False,
    "downstream": None,
}


def newest_windows(rows: int, late_min: int, late_max: int) -> NewestWindows:
    """Return the newest windows of a stream, of which the one that closed an hour ago has so many rows."""
    return NewestWindows(
        report_id=1,
        asked_ppm=990_000,
        settled_us=None,
        closed_us=NOW_US - 3_600_000_000,
        rows=rows,
        late_min=late_min,
        late_max=late_max,
    )


def stream_state(**changes: Any) -> StreamState:
    """Return the state of a stream that is well, but for some facts; of an unknown one, all parts are None."""
    facts = {**_WELL, **changes}
    name = {"stream_id": 1}
    slo = None
    if facts["target_ppm"] is not None:
        slo = Slo(
            target_ppm=facts["target_ppm"],
            window_ms=facts["window_ms"],
            objective=facts["objective"],
            worst_window_ppm=facts["worst_window_ppm"],
        )
    parts: dict[str, Any] = {
        "newest": NewestBatch(
            report=ReportRow(
                id=1,
                batch_id=1,
                seen_us=NOW_US,
                started_us=NOW_US,
                duration_ms=0,
                received_us=facts["received_us"],
                bound_ms=facts["in_use_bound_ms"],
                watermark_ms=facts["watermark_ms"],
                **name,
            ),
            base_ms=NOW_US // 1_000,
            gap_us=facts["gap_us"],
            driver=facts["driver"],
        ),
        "recommendation": RecommendationRow(
            bound_ms=facts["recommended_bound_ms"],
            conflict=facts["conflict"],
            steps=facts.get("steps")
            or (
                DecisionStep(StepKind.ROUND_UP, facts["required_ms"], "the rows require it"),
                *(
                    [
                        DecisionStep(
                            StepKind.LATENCY_CAP,
                            facts["required_ms"],
                            "above the cap",
                            Conflict("latency", facts["required_ms"]),
                        )
                    ]
                    if facts["conflict"]
                    else []
                ),
                DecisionStep(StepKind.LIMITS, facts["recommended_bound_ms"], "within the limits"),
            ),
            **name,
        ),
        "published": PublishedRow(
            generation=facts["generation"],
            mode=facts["mode"],
            bound_ms=facts["published_bound_ms"],
            published_us=facts["published_us"],
            **name,
        ),
        "applied": AcknowledgementRow(
            generation=facts["applied_generation"],
            bound_ms=facts["applied_bound_ms"],
            mode=facts["mode"],
            ceiling_ms=facts["ceiling_ms"],
            **name,
        ),
        "overview": OverviewRow(remaining_ppm=facts["remaining_ppm"], windows=facts["windows"], **name),
        "pin": None,
        "rollout": None,
        "missed": None,
        "lost": None,
    }
    parts |= {part: facts[part] for part in parts if part in facts}
    return StreamState(
        row=StreamRow(
            id=1,
            job=facts["job"],
            stream=facts["stream"],
            registered_us=facts["registered_us"],
            late_max=facts["late_max"],
            unjudged_rows=facts["unjudged_rows"],
            downstream=facts["downstream"],
        ),
        slo=None if slo is None else Spec(slo, 1, NOW_US),
        join_id=None,
        policy=Spec(
            Policy(mode=facts["mode"], paused=facts["paused"], freeze_windows=facts["freeze_windows"]),
            1,
            NOW_US,
        ),
        paused_why=None,
        future_rows=0,
        misdated_rows=0,
        missing_batches=0,
        unpinned=parts["published"],
        prediction=None,
        **parts,
    )
