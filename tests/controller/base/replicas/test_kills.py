"""Two replicas on PostgreSQL under load, killed, stopped and cut off from their store: nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import SQLAlchemyError

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import SHARDS, shard_of
from tidemark.controller.base.db.tables import PublishedRow, StreamRow
from tidemark.models.protocol.messages import Report, to_json_object

from support.faults import Survived
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.postgres import Postgres, postgres_or_skip, restartable_postgres
from support.replicas import Replica
from support.reports import exponential_batches, query_reports
from support.threads import in_threads
from support.totals import compared_totals, totals, totals_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]

STREAMS, BATCHES = 5, 120
LEASE_SECONDS = 1.5
CHAOS_SECONDS = 40
MAX_STOPS = 60


def all_reports() -> dict[str, list[Report]]:
    """By stream, the reports of one query: some thousand rows late by up to half a minute."""
    found = {}
    for number in range(STREAMS):
        stream = f"s{number}"
        reports = query_reports(exponential_batches(BATCHES, 30, seed=number), stream=stream)
        found[stream] = [replace(report, query_id=f"query of {stream}") for report in reports]
    return found


class Client:
    """Sends every report until it is acknowledged, to any replica, out of order and more than once."""

    def __init__(self, replicas: list[Replica], reports: list[Report], seed: int) -> None:
        self._replicas = replicas
        self._dice = random.Random(seed)
        order = sorted(
            range(len(reports)), key=lambda n: reports[n].batch_id + self._dice.choice([0, 0, 0, 3, 25])
        )
        self._waiting = [reports[n] for n in reversed(order)]
        self.acknowledged: Counter[tuple[str, int]] = Counter()
        self.seconds: list[float] = []
        self.retries = 0

    def run(self, pace_seconds: float) -> None:
        while self._waiting:
            report = self._waiting.pop()
            self.send(report)
            if self._dice.random() < 0.15:
                self.send(report)
            time.sleep(pace_seconds)

    def send(self, report: Report) -> None:
        began = time.monotonic()
        path = f"/v1/jobs/job/streams/{report.stream}/reports"
        while True:
            replica = self._dice.choice(self._replicas)
            with suppress(httpx.TransportError):
                answer = httpx.post(replica.url + path, json=to_json_object(report), timeout=8)
                if answer.status_code in {200, 201}:
                    break
                assert answer.status_code >= 500, answer.text
            self.retries += 1
            assert time.monotonic() - began < PATIENCE_S
            time.sleep(0.1)
        self.acknowledged[report.stream, report.batch_id] += 1
        self.seconds.append(time.monotonic() - began)


class Readers:
    """Read the published bounds from both replicas in turn, and the fencing numbers of decisions, all the time."""

    def __init__(self, replicas: list[Replica], database_url: str) -> None:
        self._replicas = replicas
        self._url = database_url
        self.over = threading.Event()
        self.generations: dict[str, list[int]] = defaultdict(list)
        self.numbers: dict[int, list[int]] = defaultdict(list)

    def have_read(self) -> bool:
        """Whether enough was read of each stream to tell that nothing goes back."""
        return len(self.generations) == STREAMS and all(len(seen) > 20 for seen in self.generations.values())

    def read_bounds(self) -> None:
        tick = 0
        while not self.over.is_set():
            for number in range(STREAMS):
                tick += 1
                url = f"{self._replicas[tick % 2].url}/v1/jobs/job/streams/s{number}/bound"
                with suppress(httpx.TransportError):
                    answer = httpx.get(url, timeout=PATIENCE_S)
                    if answer.is_success:
                        self.generations[f"s{number}"].append(answer.json()["generation"])
            time.sleep(0.02)

    def read_numbers(self) -> None:
        engine = create_engine(self._url)
        while not self.over.is_set():
            with suppress(SQLAlchemyError), engine.connect() as connection:
                for stream_id, fencing in connection.execute(
                    text("SELECT stream_id, fencing FROM recommendations WHERE fencing IS NOT NULL")
                ):
                    self.numbers[stream_id].append(fencing)
            time.sleep(0.02)
        engine.dispose()


def stop_past_the_lease(decider: Replica, other: Replica) -> float:
    """Stop a replica until the other one has taken over, let it go on; return its refused writes."""
    before = decider.metric("tidemark_decisions_refused_total")
    decider.process.send_signal(signal.SIGSTOP)
    try:
        until(
            lambda: other.metric("tidemark_leases_held") == SHARDS, "the other one to take over", pause_s=0.05
        )
    finally:
        decider.process.send_signal(signal.SIGCONT)
    # What was under way has ended when it has ticked twice.
    ticks = decider.metric("tidemark_tick_duration_seconds_count")
    until(
        lambda: decider.metric("tidemark_tick_duration_seconds_count") >= ticks + 2, "two ticks", pause_s=0.05
    )
    return decider.metric("tidemark_decisions_refused_total") - before


@dataclass
class Trouble:
    """What was done to the replicas and their store."""

    restarts: int = 0
    stops: int = 0
    refused: float = 0.0


def keep_deciding(replicas: list[Replica], over: threading.Event) -> None:
    """Change policies all the time, so that there is always a decision under way."""
    tick = 0
    while not over.is_set():
        tick += 1
        url = f"{replicas[tick % 2].url}/v1/jobs/job/streams/s{tick % STREAMS}/policy"
        with suppress(httpx.TransportError):
            held = httpx.get(url, timeout=3).headers.get("etag")
            body = {"mode": "OnRestart", "min_bound_ms": tick % 1_000}
            if held is not None:
                httpx.put(url, json=body, headers={"If-Match": held}, timeout=3)
        time.sleep(0.02)


def make_trouble(server: Postgres, replicas: list[Replica]) -> Trouble:
    """Kill, restart and stop at random points, until a write was refused too."""
    dice, done = random.Random(11), Trouble()
    actions = ["stop", "kill", "restart", "kill", "stop", "restart", "kill", "stop"]
    while actions or (not done.refused and done.stops < MAX_STOPS):
        action = actions.pop(0) if actions else "stop"
        time.sleep(dice.uniform(0.3, 1.5))
        if action == "kill":
            victim = dice.choice(replicas)
            victim.kill()
            time.sleep(dice.uniform(0.0, 1.0))
            victim.start_again()
            victim.wait_ready()
        elif action == "restart":
            server.restart()
            done.restarts += 1
        else:
            for replica in replicas:
                replica.wait_ready()
            # Any of them: the streams are in few shards, and who holds more shards may hold none of those.
            done.refused += stop_past_the_lease(*dice.sample(replicas, 2))
            done.stops += 1
    return done


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A PostgreSQL of the test's own, which it restarts."""
    with restartable_postgres(postgres_or_skip()) as running:
        yield running


LOG_LEASES = """
CREATE TABLE test_lease_terms (shard bigint, fencing bigint, holder text, PRIMARY KEY (shard, fencing));
CREATE FUNCTION test_log_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fencing <> OLD.fencing THEN
        INSERT INTO test_lease_terms VALUES (NEW.shard, NEW.fencing, NEW.holder);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER test_log_lease AFTER UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION test_log_lease();
"""
"""Keeps who held a shard under which fencing number; a number that is taken twice fails."""


@pytest.fixture
def replicas(server: Postgres, tmp_path: Path) -> Iterator[list[Replica]]:
    """Two replicas, ready; every lease taken is logged."""
    database = Database(server.url)
    database.migrate()
    with database.connect() as connection:
        connection.execute(text(LOG_LEASES))
        connection.commit()
    database.close()
    first = Replica(tmp_path, "a", server.url, TIDEMARK_LEASE_SECONDS=str(LEASE_SECONDS))
    try:
        first.wait_ready()
        second = Replica(tmp_path, "b", server.url, TIDEMARK_LEASE_SECONDS=str(LEASE_SECONDS))
        try:
            second.wait_ready()
            yield [first, second]
        finally:
            second.end()
    finally:
        first.end()


def test_nothing_is_lost_or_doubled_when_replicas_and_their_store_are_killed_and_stopped(
    server: Postgres, replicas: list[Replica], tmp_path: Path, survived: Survived
) -> None:
    reports = all_reports()
    for stream in reports:
        path = f"{replicas[0].url}/v1/jobs/job/streams/{stream}"
        assert httpx.put(f"{path}/slo", json={"target_ppm": 900_000}, timeout=PATIENCE_S).is_success
        assert httpx.put(f"{path}/policy", json=at_once(), timeout=PATIENCE_S).is_success

    clients = [Client(replicas, body, seed) for seed, body in enumerate(reports.values())]
    readers = Readers(replicas, server.url)
    began = time.monotonic()
    pace = CHAOS_SECONDS / BATCHES / 2
    with in_threads(readers.read_bounds, readers.read_numbers, over=readers.over):
        calm = threading.Event()
        sending = [partial(client.run, pace) for client in clients]
        with in_threads(*sending, partial(keep_deciding, replicas, calm), over=calm):
            trouble = make_trouble(server, replicas)
        # What was sent last is decided too.
        for stream in reports:
            until(partial(_current, replicas[0].url, stream), f"a decision on {stream}", pause_s=0.1)
        until(readers.have_read, "readers to read", seen=lambda: readers.generations)

    acknowledged = sum((client.acknowledged for client in clients), Counter[tuple[str, int]]())
    stored = Database(server.url)
    found = totals(stored)
    wanted = totals_of((report for body in reports.values() for report in body), tmp_path)
    with stored.read() as session:
        terms = session.execute(
            text("SELECT shard, fencing, holder FROM test_lease_terms ORDER BY shard, fencing")
        ).all()
        published: dict[int, list[int]] = defaultdict(list)
        for stream_id, generation in session.execute(
            select(PublishedRow.stream_id, PublishedRow.generation).order_by(PublishedRow.generation)
        ):
            published[stream_id].append(generation)
        duplicates = sum(session.scalars(select(StreamRow.duplicates)))
    stored.close()
    waits = sorted(second for client in clients for second in client.seconds)
    print(
        f"\n{sum(acknowledged.values())} acknowledgements of {len(acknowledged)} reports, "
        f"{duplicates} of them duplicates; {sum(client.retries for client in clients)} retries; "
        f"{sum(replica.kills for replica in replicas)} kills, {trouble.restarts} restarts of the database, "
        f"{trouble.stops} stops past the lease, {trouble.refused:.0f} writes refused; {len(terms)} leases taken by "
        f"{len({holder for *_, holder in terms})} processes; "
        f"{sum(map(len, readers.generations.values()))} answers and {sum(map(len, readers.numbers.values()))} "
        f"numbers read; longest wait for an acknowledgement {waits[-1]:.1f} s, median {waits[len(waits) // 2]:.3f} s; "
        f"{time.monotonic() - began:.0f} s"
    )

    for fault, times in (
        ("a controller is killed", sum(replica.kills for replica in replicas)),
        ("a controller is stopped for longer than its lease", trouble.stops),
        ("the controllers' PostgreSQL is restarted at once", trouble.restarts),
    ):
        survived(fault, times=times, **compared_totals(found, wanted))

    # Acknowledged is stored, once each, and what follows from it is what follows from the same reports sent once.
    assert set(acknowledged) == {(stream, n) for stream in reports for n in range(BATCHES)}
    assert {name: each["batches"] for name, each in found.items()} == {
        name: each["batches"] for name, each in wanted.items()
    }
    assert found == wanted
    # No generation goes back, for any reader, and none is left out.
    for seen in readers.generations.values():
        assert seen == sorted(seen)
    for generations in published.values():
        assert generations == list(range(1, len(generations) + 1))
    # One decider at a time: numbers never go back, and each was held by one process.
    for stream_id, numbers in readers.numbers.items():
        assert numbers == sorted(numbers)
        assert numbers[-1] <= max(number for shard, number, _ in terms if shard == shard_of(stream_id))
    by_shard: dict[int, list[int]] = defaultdict(list)
    for shard, number, _ in terms:
        by_shard[shard].append(number)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_shard.values())
    # And a decider that was stopped past its lease was really refused.
    assert trouble.refused > 0


def _current(url: str, stream: str) -> bool:
    body = httpx.get(f"{url}/v1/jobs/job/streams/{stream}", timeout=PATIENCE_S).json()["recommended"]
    return body is not None and bool(body["current"])
