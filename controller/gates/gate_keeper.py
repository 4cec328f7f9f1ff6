"""Asks outside gates about rollouts, in threads of its own: neither decisions nor requests ever wait for a gate.

The replica that holds the lease of a stream asks about it. Answers are stored with the rollout, so that every replica
and the time after a restart go on from there, and the state machine decides what follows from them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.api.views import rollout_answer
from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import RolloutRow, StreamRow
from tidemark.controller.decide.decider import Decider
from tidemark.controller.errors import LeaseLostError
from tidemark.controller.gates.ask import GateQuestion, Reply, ask
from tidemark.controller.replicas.lease_store import confirm
from tidemark.controller.rollout.store import gate_answers_json, gate_answers_of, model_of
from tidemark.controller.runtime.background import TickingThread
from tidemark.controller.runtime.clock import Clock
from tidemark.controller.runtime.counters import GateCounters
from tidemark.controller.runtime.operator_file import Gate
from tidemark.controller.specs.store import get_policy
from tidemark.controller.streams.store import EventBasis, add_event, lock_by_id
from tidemark.models.rollout.outside import answered, due, phase_of

_log = logging.getLogger(__name__)

_AT_ONCE = 4
"""How many questions one gate is asked at once; a gate that hangs keeps only its own waiting."""

_STOP_TIMEOUT_SECONDS = 15.0
"""How long a shutdown waits for the questions that are being asked."""

_NOT_SET_UP = Reply("unknown", "this controller has no gate of that name (TIDEMARK_GATES_FILE)")


class GateKeeper:
    """Asks the gates and stores what they answer.

    Args:
        database: the store.
        decider: decides a stream once a gate has answered; its leases say which streams are this process's.
        gates: the gates by name.
        counters: counts answers.
        clock: the wall time in microseconds.
        every_seconds: time between two looks at the rollouts, in seconds.
    """

    def __init__(
        self,
        database: Database,
        decider: Decider,
        gates: Mapping[str, Gate],
        *,
        counters: GateCounters,
        clock: Clock,
        every_seconds: float,
    ) -> None:
        self.gates = gates
        """The gates by name."""
        self._database = database
        self._decider = decider
        self._counters = counters
        self._clock = clock
        self._pools = {
            name: ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"tidemark-gate-{name}") for name in gates
        }
        self._asking: dict[tuple[int, str], Future[None]] = {}
        self._thread = TickingThread("gates", self.tick, every_seconds, stop_seconds=_STOP_TIMEOUT_SECONDS)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Let the questions that are being asked end, and ask no more."""
        self._thread.stop()
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)

    def tick(self) -> list[Future[None]]:
        """Begin to ask what is to be asked now, and return the questions under way.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer; then nobody is asked.
        """
        self._asking = {key: future for key, future in self._asking.items() if not future.done()}
        with self._database.read() as session:
            found = [
                one
                for one in open_questions(session, self._clock())
                if self._decider.leases.lease_of(one.stream_id) is not None
            ]
        for one in found:
            key = (one.rollout_id, one.question.gate)
            if key in self._asking or self._thread.stopping.is_set():
                continue
            pool = self._pools.get(one.question.gate)
            if pool is None:
                self._settle(one, _NOT_SET_UP)
            else:
                self._asking[key] = pool.submit(self._ask, one)
        return list(self._asking.values())

    def _ask(self, one: OpenQuestion) -> None:
        name = one.question.gate
        begun = perf_counter()
        try:
            reply = ask(self.gates[name], one.question)
        except Exception:  # noqa: BLE001 - the next tick asks again
            _log.exception("the outside gate %s could not be asked", name)
            reply = Reply("unknown", "it could not be asked; the controller's log has the reason")
        self._counters.seconds.labels(name).observe(perf_counter() - begun)
        self._counters.answers.labels(name, reply.verdict).inc()
        if not self._thread.stopping.is_set():
            self._settle(one, reply)

    def _settle(self, one: OpenQuestion, reply: Reply) -> None:
        """Store an answer, and decide at once what follows from it."""
        lease = self._decider.leases.lease_of(one.stream_id)
        if lease is None:
            return
        try:
            with self._database.write() as session:
                kept = keep_reply(session, one, reply, self._clock())
                confirm(session, one.stream_id, lease)
            if kept:
                self._decider.decide(one.stream_id, self._clock())
        except LeaseLostError as error:
            _log.warning("%s", error.detail)
        except Exception:  # noqa: BLE001 - the next tick asks again, and the loop decides
            _log.exception("what follows from the outside gate %s could not be stored", one.question.gate)


_WHEN = {"publish": "before it is published", "verify": "while it is verified"}


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question to a gate about a rollout."""

    stream_id: int
    """The stream."""
    rollout_id: int
    """The rollout."""
    bound_ms: int
    """The bound that it publishes, in milliseconds."""
    question: GateQuestion
    """The question."""


def open_questions(session: Session, now_us: int) -> Iterator[OpenQuestion]:
    """Return the questions that are to be asked now, of all streams."""
    for row, stream in session.execute(_OPEN):
        rollout = model_of(row)
        gates = get_policy(session, row.stream_id).value.gates
        asked = due(gates, gate_answers_of(row.gate_answers), rollout, now_us)
        phase = phase_of(rollout.state)
        if not asked or phase is None or rollout.to_bound_ms is None:
            continue
        shown = rollout_answer(row, stream).model_dump(mode="json")
        for gate in asked:
            yield OpenQuestion(row.stream_id, row.id, rollout.to_bound_ms, GateQuestion(gate, phase, shown))


# A candidate is held by an outside gate once nothing else holds it. Under a pin nobody is asked.
_OPEN = (
    select(RolloutRow, StreamRow)
    .join(StreamRow, StreamRow.id == RolloutRow.stream_id)
    .where(
        StreamRow.deleted_us.is_(None),
        RolloutRow.state.in_(("Recommended", "Effective")),
        or_(
            and_(RolloutRow.state == "Recommended", RolloutRow.held_by == "Outside"),
            and_(
                RolloutRow.state == "Effective",
                or_(RolloutRow.held_by.is_(None), RolloutRow.held_by == "Outside"),
            ),
        ),
    )
    .order_by(RolloutRow.id)
)


def keep_reply(session: Session, asked: OpenQuestion, reply: Reply, now_us: int) -> bool:
    """Store what a gate answered; return False when the rollout is past the question by now.

    A changed answer is an event of the stream.
    """
    question = asked.question
    if lock_by_id(session, asked.stream_id) is None:
        return False
    row = session.get(RolloutRow, asked.rollout_id, populate_existing=True)
    if row is None or phase_of(model_of(row).state) != question.phase:
        return False
    known = {answer.gate: answer for answer in gate_answers_of(row.gate_answers)}
    before = known.get(question.gate)
    known[question.gate] = after = answered(
        before,
        gate=question.gate,
        phase=question.phase,
        bound_ms=asked.bound_ms,
        verdict=reply.verdict,
        said=reply.said,
        at_us=now_us,
    )
    row.gate_answers = gate_answers_json(known.values())
    if before is None or (before.phase, before.verdict) != (after.phase, after.verdict):
        answer = "gives no answer" if after.verdict == "unknown" else f"says {after.verdict}"
        add_event(
            session,
            asked.stream_id,
            now_us,
            kind="GateAnswered",
            reason=f"the outside gate {after.gate} {answer} {_WHEN[after.phase]}: {after.said}",
            after=json.dumps(
                {
                    "rollout": row.id,
                    "gate": after.gate,
                    "verdict": after.verdict,
                    "to_bound_ms": after.bound_ms,
                }
            ),
            reason_class=f"{after.phase} {after.verdict}",
            evidence=EventBasis(rollout_id=row.id),
        )
    return True
