"""Asks outside gates about rollouts, in threads of its own: neither decisions nor requests ever wait for a gate.

The replica that holds the lease of a stream asks about it. Answers are stored with the rollout, so that every replica
and the time after a restart go on from there, and the state machine decides what follows from them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter

from tidemark.controller.db.database import Database
from tidemark.controller.decide.decider import Decider
from tidemark.controller.errors import LeaseLostError
from tidemark.controller.gates.ask import Reply, ask
from tidemark.controller.gates.configuration import Gate
from tidemark.controller.gates.store import OpenQuestion, keep_reply, open_questions
from tidemark.controller.metrics.process import GateCounters
from tidemark.controller.replicas.leases import confirm
from tidemark.controller.runtime.clock import Clock
from tidemark.controller.runtime.ticking_thread import TickingThread

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
