"""A fleet under real faults for a simulated week: drivers, a network, a controller and its store that fail.

The controller is the real one, in replicas on PostgreSQL with a standby, and its clock goes half an hour at a time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import NamedTuple, Self

from sqlalchemy import create_engine, text

from support.bad_network import State, bad_network
from support.clocked_controller import ClockedReplicas, FileClock
from support.failover import ReplicatedPostgres
from support.patience import until
from support.week_job import WeekJob
from support.week_streams import START_US, STEP_S, WeekStream

__all__ = ["DAY", "REPLICAS", "SimulatedWeek"]

HOUR, DAY = 3_600 // STEP_S, 86_400 // STEP_S
"""Steps of an hour and of a day."""
REPLICAS = 3
"""Replicas of the controller."""

_REPLICA_KILLED = (0.12, 0.25, 0.51, 0.68, 0.8, 0.97)
_STORE_RESTARTED = (0.18, 0.54, 0.9)
_STORE_FAILS_OVER = 0.7
"""When, as shares of the whole time."""
_DRIVER_ENDS = 1 / (2 * DAY)
"""Chance of each driver in a step to be restarted, and of each that cannot talk to be killed:"""
_KILLED_UNSENT = 1 / 50
_TRIES = 20
"""Connections that a bad network breaks in each step."""
_CLOCK_STEPS_MIN = (40, -25)
"""By how much the clocks of drivers are wrong."""
_FULL = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE FUNCTION no_room_for_a_table() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not create file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER no_room BEFORE INSERT ON reports FOR EACH STATEMENT EXECUTE FUNCTION no_room();
CREATE EVENT TRIGGER no_room ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION no_room_for_a_table();
"""
"""Lets PostgreSQL answer what it answers when its disk is full."""
_ROOM = "DROP EVENT TRIGGER no_room; DROP FUNCTION no_room_for_a_table; DROP FUNCTION no_room CASCADE"


class Fault(NamedTuple):
    """A fault that lasts for some steps."""

    first: int
    last: int
    begin: Callable[[], AbstractContextManager[None]]
    talks: bool = False
    """Whether drivers and controller can talk all the same."""


class SimulatedWeek:
    """Runs the fleet; use it as a context, which ends all that it started.

    Args:
        folder: where the clock and the replicas' logs are.
        server: the store, empty.
        streams: the fleet.
        seed: of which drivers are restarted, killed or have a wrong clock, and when.
    """

    def __init__(
        self, folder: Path, server: ReplicatedPostgres, streams: Sequence[WeekStream], seed: int
    ) -> None:
        self.faults: Counter[str] = Counter()
        """How often each came."""
        self._server = server
        self._dice = random.Random(seed)
        self._ending = ExitStack()
        self._clock = FileClock(folder / "clock")
        self._clock.set(START_US)
        self.controller = ClockedReplicas(folder, self._clock, server.url, count=REPLICAS)
        self._ending.callback(self.controller.kill)
        url, self._network = self._ending.enter_context(bad_network(*self.controller.ports))
        self.jobs = [WeekJob(stream, url) for stream in streams]
        for job in self.jobs:
            self._ending.callback(job.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ending.close()

    def run(self, days: int, *, ticks_a_day: int, on_tick: Callable[[int], None]) -> None:
        """Let so many days pass.

        Args:
            on_tick: called after each tick, with how many there were.
        """
        steps = days * DAY
        faults, killed = self._lasting(steps), {round(share * steps) for share in _REPLICA_KILLED}
        restarted = {round(share * steps) for share in _STORE_RESTARTED}
        for job in self.jobs:
            self.controller.put(f"{job.path}/slo", job.made.slo)
            self.controller.put(f"{job.path}/policy", job.made.policy)
            job.start(START_US, job.asked())
        under_way: dict[Fault, ExitStack] = {}
        for step in range(1, steps + 1):
            now_us = START_US + step * STEP_S * 1_000_000
            self._clock.set(now_us)
            for fault in [each for each in faults if each.first == step]:
                under_way[fault] = self._ending.enter_context(ExitStack())
                under_way[fault].enter_context(fault.begin())
            self._network.expect(_TRIES)
            for job in self.jobs:
                job.batch(now_us)
            # While reports are under way.
            if step in killed:
                self.faults["a replica is killed, and started again"] += 1
                self.controller.kill_and_start_one()
            if step in restarted:
                self.faults["PostgreSQL is restarted at once"] += 1
                self._server.restart()
            if step == round(_STORE_FAILS_OVER * steps):
                self.faults["PostgreSQL fails over to its standby"] += 1
                self._server.fail_over()
            if all(fault.talks for fault in under_way):
                self._talk(step, now_us)
                if step % (DAY // ticks_a_day) == 0:
                    self.controller.tick()
                    on_tick(step // (DAY // ticks_a_day))
            else:
                self._cannot_talk(now_us)
            for fault in [each for each in under_way if each.last == step]:
                under_way.pop(fault).close()
        self._flush()

    def _flush(self) -> None:
        for job in self.jobs:
            assert job.flushed(), self.controller.log()

    def _talk(self, step: int, now_us: int) -> None:
        self._flush()
        for job in self.jobs:
            job.report_again()
            if self._dice.random() < _DRIVER_ENDS:
                # An orderly end and a kill are the same here: all is sent.
                self.faults["a driver is restarted"] += 1
                job.kill()
                job.start(now_us, job.asked())
            elif job.made.mode in {"Restart", "Live"} and step % HOUR == 0:
                job.follow(now_us)

    def _cannot_talk(self, now_us: int) -> None:
        """Wait until drivers have tried; kill a few where nothing that they tried to send has arrived."""
        if self._network.state == "good":
            until(lambda: not self.controller.any_ready(), "every replica to say that it is not ready")
        else:
            until(self._network.has_broken, "connections to break")
        # Otherwise what is under way may still be stored, and nobody could tell.
        if self._network.state == "cut":
            for job in self.jobs:
                if self._dice.random() < _KILLED_UNSENT:
                    self.faults["a driver is killed with reports that it has not sent"] += 1
                    job.kill()
                    job.start(now_us, None)

    # -- faults ----------------------------------------------------------------------------------------------------

    def _lasting(self, steps: int) -> list[Fault]:
        def lasting(
            share: float,
            hours: float,
            begin: Callable[[], AbstractContextManager[None]],
            *,
            talks: bool = False,
        ) -> Fault:
            first = round(share * steps)
            return Fault(first, first + round(hours * HOUR) - 1, begin, talks)

        return [
            lasting(0.16, 1, partial(self._bad, "slow"), talks=True),
            lasting(0.22, 12, self._wrong_clocks, talks=True),
            lasting(0.34, 6, partial(self._bad, "cut")),
            lasting(0.45, 1, partial(self._bad, "without answers")),
            lasting(0.58, 4, self._store_away),
            lasting(0.72, 3, self._store_full),
            lasting(0.87, 2, partial(self._bad, "cut")),
            lasting(0.92, 1, partial(self._bad, "without answers")),
        ]

    @contextmanager
    def _bad(self, state: State) -> Iterator[None]:
        named = {"slow": "the network is slow", "cut": "the network is cut"}
        self.faults[named.get(state, "answers of the controller are lost")] += 1
        self._network.state = state
        try:
            yield
        finally:
            self._network.state = "good"

    @contextmanager
    def _wrong_clocks(self) -> Iterator[None]:
        chosen = self._dice.sample(self.jobs, len(self.jobs) // 6)
        self.faults["the clock of a driver is stepped, and set right"] += len(chosen)
        for job, ahead_min in zip(chosen, cycle(_CLOCK_STEPS_MIN), strict=False):
            job.clock_ahead_us = ahead_min * 60_000_000
        yield
        for job in chosen:
            job.clock_ahead_us = 0

    @contextmanager
    def _store_away(self) -> Iterator[None]:
        self.faults["PostgreSQL is away"] += 1
        with self._server.away():
            yield

    @contextmanager
    def _store_full(self) -> Iterator[None]:
        self.faults["the disk of PostgreSQL is full"] += 1
        engine = create_engine(self._server.primary_url)
        with engine.begin() as connection:
            connection.execute(text(_FULL))
        yield
        with engine.begin() as connection:
            connection.execute(text(_ROOM))
        engine.dispose()
