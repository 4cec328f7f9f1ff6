"""Asks outside gates about rollouts, in threads of its own: neither decisions nor requests ever wait for a gate.

The replica that holds the lease of a stream asks about it. Answers are stored with the rollout, so that every replica
and the time after a restart go on from there, and the state machine decides what follows from them.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import httpx
from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.base.background import TickingThread
from tidemark.controller.base.clock import Clock
from tidemark.controller.base.counters import GateCounters
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import confirm
from tidemark.controller.base.db.tables import RolloutRow, StreamRow
from tidemark.controller.base.errors import LeaseLostError
from tidemark.controller.base.fetch import NoAnswer, TokenFileError, bearer, fetch
from tidemark.controller.base.operator_file import Gate, PrometheusGate, WebhookGate
from tidemark.controller.control.decide.decider import Decider
from tidemark.controller.control.rollout.store import model_of
from tidemark.controller.specs.store import get_policy
from tidemark.controller.specs.streams import EventBasis, add_event, lock_by_id
from tidemark.models.base.text import format_number
from tidemark.models.rollout.gate import counted_after, due, phase_of
from tidemark.models.rollout.states import GateAnswer, Phase, Verdict

_log = logging.getLogger(__name__)

_AT_ONCE = 4
"""How many questions one gate is asked at once; a gate that hangs keeps only its own waiting."""

_STOP_TIMEOUT_SECONDS = 15.0
"""How long a shutdown waits for the questions that are being asked."""


Shown = Callable[[RolloutRow, StreamRow], dict[str, Any]]
"""Returns a rollout as gates are told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """A question to a gate about a rollout."""

    stream_id: int
    """The stream."""
    rollout_id: int
    """The rollout."""
    bound_ms: int
    """The bound that it publishes, in milliseconds."""
    gate: str
    """Name of the gate."""
    phase: Phase
    """What about."""
    rollout: Mapping[str, Any]
    """The rollout, as the API answers it."""


def open_questions(session: Session, now_us: int, shown: Shown) -> Iterator[GateQuestion]:
    """Return the questions that are to be asked now, of all streams, each with its rollout as it is shown."""
    for row, stream in session.execute(_OPEN):
        rollout = model_of(row)
        gates = get_policy(session, row.stream_id).value.gates
        asked = due(gates, row.gate_answers, rollout, now_us)
        phase = phase_of(rollout.state)
        if not asked or phase is None or rollout.to_bound_ms is None:
            continue
        seen = shown(row, stream)
        for gate in asked:
            yield GateQuestion(
                stream_id=row.stream_id,
                rollout_id=row.id,
                bound_ms=rollout.to_bound_ms,
                gate=gate,
                phase=phase,
                rollout=seen,
            )


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


def keep_reply(session: Session, question: GateQuestion, reply: Reply, now_us: int) -> bool:
    """Store what a gate answered; return False when the rollout is past the question by now.

    A changed answer is an event of the stream.
    """
    if lock_by_id(session, question.stream_id) is None:
        return False
    row = session.get(RolloutRow, question.rollout_id, populate_existing=True)
    if row is None or phase_of(model_of(row).state) != question.phase:
        return False
    known = {answer.gate: answer for answer in row.gate_answers}
    before = known.get(question.gate)
    said = GateAnswer(
        gate=question.gate,
        phase=question.phase,
        bound_ms=question.bound_ms,
        verdict=reply.verdict,
        said=reply.said,
        at_us=now_us,
    )
    known[question.gate] = after = counted_after(before, said)
    row.gate_answers = tuple(known.values())
    if before is None or (before.phase, before.verdict) != (after.phase, after.verdict):
        answer = "gives no answer" if after.verdict == "unknown" else f"says {after.verdict}"
        add_event(
            session,
            question.stream_id,
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


TIMEOUT_SECONDS = 5.0
"""How long a gate may take from the connection to the end of its answer."""

_MAX_SHOWN = 200
"""Characters of an answer that a reason repeats."""

_NO_ANSWER = frozenset({429, 502, 503, 504})
"""HTTP statuses by which whatever stands before a gate says that the gate was not asked."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a gate answered."""

    verdict: Verdict
    """Its answer."""
    said: str
    """The same in words; it shows neither the address nor the token."""


def ask(gate: Gate, question: GateQuestion) -> Reply:
    """Ask a gate and return what it answers; it takes at most ``TIMEOUT_SECONDS``, and a failure is an answer too."""
    try:
        headers = bearer(gate.token_file)
        match gate:
            case WebhookGate():
                body = {"gate": question.gate, "phase": question.phase, "rollout": question.rollout}
                return _of_webhook(fetch("POST", gate.webhook, TIMEOUT_SECONDS, headers=headers, json=body))
            case PrometheusGate():
                url = f"{gate.prometheus.rstrip('/')}/api/v1/query"
                query = {"query": _filled(gate.query, question.rollout)}
                return _of_prometheus(gate, fetch("GET", url, TIMEOUT_SECONDS, headers=headers, params=query))
    except (TokenFileError, NoAnswer) as error:
        return Reply("unknown", str(error))


def _of_webhook(answer: httpx.Response) -> Reply:
    status, text = answer.status_code, _shown(answer.content.decode("utf-8", "replace"))
    said = f"{status}: {text}" if text else str(status)
    # A page is what a proxy shows, such as one to log in.
    if status in _NO_ANSWER or 300 <= status < 400 or text.startswith("<"):
        return Reply("unknown", said)
    return Reply("yes" if 200 <= status < 300 else "no", said)


def _of_prometheus(gate: PrometheusGate, answer: httpx.Response) -> Reply:
    status = answer.status_code
    try:
        found = json.loads(answer.content)
        if found["status"] != "success":
            return Reply("unknown", _shown(f"{status}: {found['error']}"))
        values = _values(found["data"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return Reply("unknown", f"{status}, and not the values of an instant query")
    if not values or any(math.isnan(value) for value in values):
        return Reply("unknown", f"the query returns {'NaN' if values else 'nothing'}")
    lowest, highest = min(values), max(values)
    if gate.max is not None and highest > gate.max:
        return Reply("no", f"{format_number(highest)} is above the maximum, {format_number(gate.max)}")
    if gate.min is not None and lowest < gate.min:
        return Reply("no", f"{format_number(lowest)} is below the minimum, {format_number(gate.min)}")
    few = format_number(lowest)
    return Reply("yes", few if lowest == highest else f"{few} to {format_number(highest)}")


def _values(data: Mapping[str, Any]) -> list[float]:
    """Return the values of a scalar or a vector.

    Raises:
        ValueError: when it is something else.
    """
    match data["resultType"]:
        case "scalar":
            return [float(data["result"][1])]
        case "vector":
            return [float(sample["value"][1]) for sample in data["result"]]
        case other:
            raise ValueError(f"a {other} has no single value")


def _filled(query: str, rollout: Mapping[str, Any]) -> str:
    for name in ("job", "stream"):
        # PromQL reads the escapes of JSON, so that a name can hold anything and stays a string.
        query = query.replace(f"{{{{{name}}}}}", json.dumps(rollout[name], ensure_ascii=False))
    return query


def _shown(text: str) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= _MAX_SHOWN else f"{line[: _MAX_SHOWN - 1]}…"


_NOT_SET_UP = Reply("unknown", "this controller has no gate of that name (TIDEMARK_GATES_FILE)")


class GateKeeper:
    """Asks the gates and stores what they answer.

    Args:
        decider: decides a stream once a gate has answered; its leases say which streams are this process's.
        shown: returns a rollout as gates are told of it.
        counters: counts answers.
        clock: the wall time in microseconds.
        every_seconds: time between two looks at the rollouts, in seconds.
    """

    def __init__(
        self,
        database: Database,
        decider: Decider,
        gates: Mapping[str, Gate],
        shown: Shown,
        *,
        counters: GateCounters,
        clock: Clock,
        every_seconds: float,
    ) -> None:
        self.gates = gates
        """The gates by name."""
        self._database = database
        self._decider = decider
        self._shown = shown
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
                for one in open_questions(session, self._clock(), self._shown)
                if self._decider.leases.lease_of(one.stream_id) is not None
            ]
        for one in found:
            key = (one.rollout_id, one.gate)
            if key in self._asking or self._thread.stopping.is_set():
                continue
            pool = self._pools.get(one.gate)
            if pool is None:
                self._settle(one, _NOT_SET_UP)
            else:
                self._asking[key] = pool.submit(self._ask, one)
        return list(self._asking.values())

    def _ask(self, one: GateQuestion) -> None:
        name = one.gate
        begun = perf_counter()
        try:
            reply = ask(self.gates[name], one)
        except Exception:  # noqa: BLE001 - the next tick asks again
            _log.exception("the outside gate %s could not be asked", name)
            reply = Reply("unknown", "it could not be asked; the controller's log has the reason")
        self._counters.seconds.labels(name).observe(perf_counter() - begun)
        self._counters.answers.labels(name, reply.verdict).inc()
        if not self._thread.stopping.is_set():
            self._settle(one, reply)

    def _settle(self, one: GateQuestion, reply: Reply) -> None:
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
            _log.exception("what follows from the outside gate %s could not be stored", one.gate)


_WHEN = {"publish": "before it is published", "verify": "while it is verified"}
