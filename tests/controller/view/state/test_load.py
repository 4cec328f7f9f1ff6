"""Reading states: one stream alone reads the same as among all, and as the queries of its subjects say."""

from __future__ import annotations

from typing import Any

from sqlalchemy import inspect

from tidemark.controller.base.db.tables import Base
from tidemark.controller.control.bounds.acknowledgements import last_acknowledgement
from tidemark.controller.control.bounds.publication import last_published, newest_rollout
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.reports.live import newest_state
from tidemark.controller.reports.store import effective_bound_of
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.view.state.load import load_state, load_states
from tidemark.controller.view.state.state import StreamState
from tidemark.models.protocol.messages import Acknowledgement

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports


def plain(state: StreamState) -> dict[str, Any]:
    """Return a state with its rows as values, which compare."""

    def value(found: Any) -> Any:
        if isinstance(found, Base):
            return {column.key: getattr(found, column.key) for column in inspect(found).mapper.column_attrs}
        return found

    parts = {name: value(getattr(state, name)) for name in StreamState.__slots__}
    if state.newest is not None:
        parts["newest"] = {name: value(getattr(state.newest, name)) for name in type(state.newest).__slots__}
    return parts


def test_a_stream_alone_reads_as_it_does_among_all_and_as_each_subject_says(either: Controller) -> None:
    either.put("/slo", {"target_ppm": 900_000})
    either.put("/policy", at_once())
    either.report_all(query_reports(exponential_batches(24, 50, slow=3)))
    either.tick()
    either.snapshot()
    for run in ("a", "b"):
        applied = Acknowledgement(
            query_id="query",
            run_id=run,
            bound_ms=5_000,
            generation=None,
            source="job",
            mode="OnRestart",
            applied_us=START_US,
        )
        assert either.acknowledge(applied).status_code == 201
    either.http.put("/v1/jobs/other/streams/expected/slo", json={"target_ppm": 900_000})
    either.http.put("/v1/pin", params={"job": "job"}, json={"to": "Off", "reason": "INC-1"})
    with either.service.database.read() as session:
        states = load_states(session)
        assert [(state.row.job, state.row.stream) for state in states] == [
            ("job", "stream"),
            ("other", "expected"),
        ]
        assert [plain(load_state(session, state.id)) for state in states] == [plain(each) for each in states]
        state, expected = states
        horizon = horizon_of(session, state.id, state.horizon_ms)
        assert horizon is not None
        assert state.newest is not None
        assert (state.horizon, state.newest.report) == (horizon, horizon.newest)
        assert state.newest.driver == newest_state(session, horizon.newest)
        assert state.newest.effective_bound_ms == effective_bound_of(session, horizon.newest)
        assert state.applied is not None
        assert (state.applied, state.applied.run_id) == (last_acknowledgement(session, state.id), "b")
        assert state.published is last_published(session, state.id)
        assert state.unpinned is last_published(session, state.id, pinned=False)
        assert state.published is not state.unpinned
        assert state.rollout is not None
        assert state.rollout is newest_rollout(session, state.id)
        assert state.pin == pin_in_force(session, "job", "stream")
        assert state.overview is not None
        assert (expected.newest, expected.published, expected.applied, expected.pin) == (None,) * 4
        assert expected.row.registered_us is None
