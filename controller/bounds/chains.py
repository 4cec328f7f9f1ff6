"""What a stream's job last acknowledged beside its bound: the chain behind its operator, and its late rows.

Both are kept in the stream's row: every decision reads that anyway.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import lru_cache

from sqlalchemy.orm import Session

from tidemark.controller.db.tables import StreamRow
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.models.coupling import Chain
from tidemark.models.late_policy import LateTreatment
from tidemark.models.read_json import read_object
from tidemark.models.slo import Policy


def late_json(late: LateTreatment | None) -> str | None:
    """Return what is stored of it."""
    return None if late is None else json.dumps(asdict(late))


@lru_cache(maxsize=256)
def late_in(text: str | None) -> LateTreatment | None:
    """Return what ``late_json`` made JSON of; None when the job does not say."""
    return None if text is None else read_object(LateTreatment, json.loads(text))


def chain_json(chain: Chain | None) -> str | None:
    """Return what is stored of a chain."""
    return None if chain is None else json.dumps(asdict(chain))


def chain_of(session: Session, stream_id: int) -> Chain | None:
    """Return a stream's chain; None when its bound decides nothing else, or when that is not known."""
    text = session.get_one(StreamRow, stream_id).chain
    return None if text is None else _chain(text)


@lru_cache(maxsize=4_096)
def _chain(text: str) -> Chain:
    return read_object(Chain, json.loads(text))


def policy_in_force(session: Session, stream_id: int, policy: Policy) -> Policy:
    """Return the policy under which nothing is published that the stream's chain may not survive.

    For an unsafe chain the bound in use is the minimum, whatever the policy says; else it is the policy as it is.
    """
    chain = chain_of(session, stream_id)
    horizon = horizon_of(session, stream_id, 0) if chain is not None and chain.unsafe else None
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
