"""The SLO on the output of a join and how the join is doing, as the API answers them."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.api.schemas.joins import JoinAnswer, JoinSideAnswer, JoinStateAnswer
from tidemark.controller.evidence.kept_joins import KeptJoins
from tidemark.controller.joins.lost import judged_in
from tidemark.controller.joins.sides import state_of
from tidemark.controller.joins.store import StoredJoin
from tidemark.controller.specs.store import fields_of
from tidemark.models.base.target import PPM
from tidemark.models.recommend.joint_bounds import lost_ppm


def join_answer(session: Session, join: StoredJoin, kept: KeptJoins, *, dry_run: bool = False) -> JoinAnswer:
    """Return a join and how it is doing."""
    state = state_of(session, join, kept)
    bounds = state.sides[0].bounds
    judged = judged_in(session, join.slo, state.newest)
    lost, budget = lost_ppm(judged), PPM - join.slo.target_ppm
    query_ids = {None if row is None else row.query_id for row in state.newest}
    return JoinAnswer(
        **fields_of(join.slo),
        updated_us=join.updated_us,
        dry_run=dry_run,
        state=JoinStateAnswer.of(
            state.evidence,
            query_id=query_ids.pop() if len(query_ids) == 1 else None,
            common_bound_ms=None if bounds is None else bounds.common_ms,
            lost_min_ppm=None if lost is None else lost[0],
            lost_max_ppm=None if lost is None else lost[1],
            remaining_ppm=None if lost is None else (budget - lost[1]) * PPM // budget,
            sides=[
                JoinSideAnswer(
                    stream=stream.stream,
                    bound_ms=None if bounds is None else bounds.bounds_ms[side.side],
                    in_use_bound_ms=None if newest is None else newest.bound_ms,
                    rows=int(side.needs.rows_by_side[side.side]),
                    late=None if bounds is None else side.late_under(bounds.bounds_ms[side.side]),
                    judged_rows=rows,
                    late_min=late_min,
                    late_max=late_max,
                    reason=side.why_no_bound if bounds is None else bounds.reason(side.side),
                )
                for stream, newest, side, (rows, late_min, late_max) in zip(
                    state.streams, state.newest, state.sides, judged, strict=True
                )
            ],
        ),
    )
