"""Leases: one process decides a stream at a time, whatever clocks say and whoever is stopped when."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import (
    SHARDS,
    Lease,
    LeaseKeeper,
    Shard,
    confirm,
    give_back,
    shard_of,
    shards,
    share_out,
    take,
)
from tidemark.controller.base.db.tables import (
    EventRow,
    PublishedRow,
    RecommendationRow,
    StreamRow,
)
from tidemark.controller.base.errors import LeaseLostError, StoreUnavailableError
from tidemark.controller.base.settings import Settings
from tidemark.controller.control.decide.decider import Decider
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.server.process.loop import Tick, run_once

from support.controller_app import STREAM, Controller
from support.empty_store import open_empty
from support.next_migration import use_next_migration
from support.patience import PATIENCE_S, until
from support.reports import exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(24, 50, slow=3))


class Steady:
    """A steady clock in the test's hands, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database of the test's own, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tidemark.db'}"
    found: str = request.getfixturevalue("new_postgres_url")
    return found


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_empty(url)
    yield opened
    opened.close()


def keeper(database: Database, name: str, steady: Steady, lease_seconds: float = 15) -> LeaseKeeper:
    return LeaseKeeper(database, lease_seconds, steady, holder=name)


def numbers(database: Database) -> list[int]:
    with database.read() as session:
        return [shard.fencing for shard in shards(session)]


# -- sharing out ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    holders=st.lists(st.sampled_from(["a", "b", "c", "dead", None]), min_size=1, max_size=40),
    live=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
    order=st.randoms(use_true_random=False),
)
def test_shards_are_shared_out_evenly_and_then_nothing_moves(
    holders: list[str | None], live: set[str], order: random.Random
) -> None:
    state = [Shard(number, holder, 0) for number, holder in enumerate(holders)]
    share = -(-len(state) // len(live))
    for _ in range(3):
        for me in order.sample(sorted(live), len(live)):
            for shard in share_out(state, live, me):
                if shard.holder in live:
                    assert shard.holder != me
                    assert [each.holder for each in state].count(shard.holder) > share
                state[shard.number] = Shard(shard.number, me, shard.fencing + 1)
    held = [shard.holder for shard in state]
    assert set(held) <= live
    assert max(held.count(me) for me in live) <= share
    assert not any(share_out(state, live, me) for me in live)


# -- keeping -------------------------------------------------------------------------------------------------------


def test_a_process_alone_holds_everything_and_keeps_its_numbers(database: Database) -> None:
    steady = Steady()
    alone = keeper(database, "a", steady)
    for _ in range(5):
        alone.keep()
        steady.now += 5
    assert alone.held == SHARDS
    assert numbers(database) == [1] * SHARDS


def test_a_second_process_gets_half_and_a_clean_stop_hands_everything_back_at_once(
    database: Database,
) -> None:
    steady = Steady()
    one, two = keeper(database, "a", steady), keeper(database, "b", steady)
    one.keep(now=True)
    two.keep(now=True)
    one.keep(now=True)
    assert (one.held, two.held) == (SHARDS // 2, SHARDS // 2)
    one.stop()
    two.keep(now=True)
    assert two.held == SHARDS
    with database.read() as session:
        assert {(shard.holder, shard.fencing) for shard in shards(session)} == {("b", 2)}


def test_few_streams_in_a_row_are_spread_over_all_replicas(database: Database) -> None:
    steady = Steady()
    keepers = [keeper(database, name, steady) for name in "abc"]
    for _ in range(3):
        for each in keepers:
            each.keep(now=True)
    for first in range(1, 200):
        counts = [sum(each.lease_of(first + number) is not None for number in range(9)) for each in keepers]
        assert min(counts) >= 1


def test_a_process_that_is_to_end_decides_until_others_have_taken_what_it_decides(database: Database) -> None:
    steady = Steady()
    one, two = keeper(database, "a", steady), keeper(database, "b", steady)
    for each in (one, two, one, two):
        each.keep(now=True)
    one.leave()
    assert one.held == SHARDS // 2
    two.keep(now=True)
    one.keep()
    assert (one.held, two.held) == (0, SHARDS)
    # Nobody is left to take it.
    two.leave()
    two.keep()
    assert two.held == SHARDS
    two.stop()
    with database.read() as session:
        assert {shard.holder for shard in shards(session)} == {None}


@pytest.mark.parametrize("after_s", [0.0, 1.5, 2.9])
def test_a_process_without_a_sign_of_life_is_taken_over_within_the_lease_and_two_heartbeats_may_fail(
    database: Database, after_s: float
) -> None:
    steady = Steady()
    dead, heir = keeper(database, "a", steady), keeper(database, "b", steady)
    dead.keep(now=True)
    steady.now += after_s
    heir.keep(now=True)
    while heir.held < SHARDS:
        steady.now += 3
        heir.keep(now=True)
    assert 9 <= steady.now <= 15
    assert numbers(database) == [2] * SHARDS
    # Back again, it finds that it holds nothing, and takes its share.
    dead.keep(now=True)
    heir.keep(now=True)
    assert (dead.held, heir.held) == (SHARDS // 2, SHARDS // 2)


def test_a_release_that_migrates_the_store_takes_over_at_once_and_the_one_before_writes_nothing(
    database: Database, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = keeper(database, "a", Steady())
    old.keep(now=True)
    use_next_migration(monkeypatch, tmp_path)
    with closing(Database(url)) as migrated:
        migrated.migrate()
        new = keeper(migrated, "b", Steady())
        new.keep(now=True)
        assert new.held == SHARDS
        with pytest.raises(StoreUnavailableError, match="another release has migrated"):
            old.keep(now=True)


def test_the_length_of_a_lease_is_by_ones_own_clock_so_that_one_that_is_wrong_costs_nothing(
    database: Database,
) -> None:
    here, there = Steady(), Steady()
    there.now = 10**6
    one, two = keeper(database, "a", here), keeper(database, "b", there)
    for _ in range(6):
        one.keep(now=True)
        two.keep(now=True)
        here.now += 1
        there.now += 1
    assert (one.held, two.held) == (SHARDS // 2, SHARDS // 2)
    assert max(numbers(database)) == 2


def test_what_another_took_meanwhile_is_left_to_it_and_not_given_back_for_it(database: Database) -> None:
    keeper(database, "a", Steady()).keep(now=True)
    with database.read() as session:
        read = shards(session)
    with database.write() as session:
        assert take(session, read[:2], "b") == [Lease(0, 2), Lease(1, 2)]
    with database.write() as session:
        taken = take(session, read, "c")
        assert taken == [Lease(number, 2) for number in range(2, SHARDS)]
        assert take(session, read, "d") == []
    with database.write() as session:
        give_back(session, range(SHARDS), "c")
    with database.read() as session:
        assert [shard.holder for shard in shards(session)] == ["b", "b", *[None] * (SHARDS - 2)]


# -- deciding ------------------------------------------------------------------------------------------------------


def stored(database: Database) -> tuple[list[int | None], int, int]:
    with database.read() as session:
        return (
            list(session.scalars(select(RecommendationRow.bound_ms))),
            len(session.scalars(select(PublishedRow)).all()),
            len(session.scalars(select(EventRow)).all()),
        )


def test_a_decision_whose_lease_was_taken_over_meanwhile_writes_nothing_and_is_counted(url: str) -> None:
    # Its own heartbeats are too far apart for it to notice.
    with Controller(url, lease_seconds=3_600) as controller:
        controller.put("/slo", {"target_ppm": 900_000})
        controller.put("/policy", {"mode": "OnRestart"})
        controller.report_all(REPORTS)
        service, database = controller.service, controller.service.database
        stream_id = 1
        lease = service.decider.leases.lease_of(stream_id)
        assert lease is not None
        before = stored(database)

        # Stopped between reading and writing, while another process waits out the lease and takes over.
        steady = Steady()
        heir = keeper(database, "heir", steady)
        heir.keep(now=True)
        steady.now += 60
        heir.keep(now=True)
        assert heir.held == SHARDS
        assert controller.tick() == Tick(decided=0, unchanged=1, failed=0)
        assert stored(database) == before
        assert "tidemark_decisions_refused_total 1.0" in controller.http.get("/metrics").text

        # The heir decides, under its number.
        decider = Decider(database, heir, EvidenceCache(), Settings().fleet_limits)
        assert decider.decide(stream_id, controller.clock())
        with database.read() as session:
            row = session.get_one(RecommendationRow, stream_id)
            assert row.fencing == lease.fencing + 1
        # What was decided under the old number stays refused for good, also when the shard comes back.
        with (
            pytest.raises(LeaseLostError, match=f"under number {lease.fencing}"),
            database.write() as session,
        ):
            confirm(session, stream_id, lease)


def test_a_given_back_shard_lets_nobody_write_under_its_old_number(database: Database) -> None:
    one = keeper(database, "a", Steady())
    one.keep(now=True)
    lease = one.lease_of(7)
    assert lease is not None
    one.stop()
    assert one.lease_of(7) is None
    with pytest.raises(LeaseLostError, match="was given back"), database.write() as session:
        confirm(session, 7, lease)
    with pytest.raises(ValueError, match=f"belongs to shard {shard_of(8)}"), database.write() as session:
        confirm(session, 8, lease)
    assert shard_of(7) == lease.shard


def _waiting_for_locks(database: Database) -> int:
    with database.read() as session:
        found = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return int(session.execute(found).scalar_one())


@pytest.mark.slow
def test_nobody_takes_a_shard_between_a_confirmation_and_its_commit(new_postgres_url: str) -> None:
    database = open_empty(new_postgres_url)
    one, heir = keeper(database, "a", Steady()), keeper(database, "b", Steady())
    one.keep(now=True)
    lease = one.lease_of(1)
    assert lease is not None
    taking = threading.Thread(target=heir.keep, kwargs={"now": True})
    with database.write() as session:
        confirm(session, 1, lease)
        taking.start()
        until(lambda: _waiting_for_locks(database), "another process to wait for the commit")
        assert taking.is_alive()
        assert heir.held == 0
    taking.join(PATIENCE_S)
    assert heir.lease_of(1) == Lease(lease.shard, lease.fencing + 1)
    database.close()


def test_what_another_process_decides_is_left_to_it_by_turns_but_a_write_decides_what_it_changed(
    url: str,
) -> None:
    with Controller(url) as controller:
        controller.report_all(REPORTS[:-1])
        service = controller.service
        other = keeper(service.database, "other", Steady())
        other.keep(now=True)
        service.decider.leases.stop()
        other.keep(now=True)
        assert other.held == SHARDS
        assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 200
        assert controller.status()["recommended"]["current"] is True
        controller.report(REPORTS[-1])
        assert controller.status()["recommended"]["current"] is False
        tick = run_once(service.database, service.decider, service.loop, controller.clock())
        assert tick == Tick(decided=0, unchanged=1, failed=0)
        assert Decider(service.database, other, EvidenceCache(), Settings().fleet_limits).decide(
            1, controller.clock()
        )
        assert controller.http.get(STREAM).json()["recommended"]["current"] is True
        with service.database.read() as session:
            assert session.scalars(select(StreamRow.id)).one() == 1
