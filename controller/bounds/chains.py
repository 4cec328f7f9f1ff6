"""What a stream's job last acknowledged beside its bound: the chain behind its operator, and its late rows.

Both are kept in the stream's row: every decision reads that anyway.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import lru_cache

from sqlalchemy.orm import Session

from tidemark.controller.evidence.horizon import horizon_of
from tidemark.models.base.read_json import read_object
from tidemark.models.protocol.late_policy import LateTreatment
from tidemark.models.specs.slo import Policy


def late_json(late: LateTreatment | None) -> str | None:
    """Return what is stored of it."""
    return None if late is None else json.dumps(asdict(late))


@lru_cache(maxsize=256)
def late_in(text: str | None) -> LateTreatment | None:
    """Return what ``late_json`` made JSON of; None when the job does not say."""
    return None if text is None else read_object(LateTreatment, json.loads(text))


def policy_in_force(session: Session, stream_id: int, policy: Policy) -> Policy:
    """Return the policy under which nothing is published that the stream's query may not survive.

    Where a narrower bound may end it, the bound in use is the minimum, whatever the policy says; else it is the policy as it is.
    """
    downstream = downstream_of(session, stream_id)
    horizon = horizon_of(session, stream_id, 0) if downstream is not None and downstream.unsafe else None
    if horizon is None:
        return policy
    used_ms = horizon.newest.bound_ms
    max_ms = policy.max_bound_ms
    return replace(
        policy,
        min_bound_ms=max(policy.min_bound_ms, used_ms),
        max_bound_ms=None if max_ms is None else max(max_ms, used_ms),
        # The job's own bound may be narrower.
        on_no_data="hold" if policy.on_no_data == "own" else policy.on_no_data,
    )
