"""The runner on a clock of its own: what it restarts for, what it puts back, and what is none of its business."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.protocol.messages import BoundAnswer, Mode, Pin
from tidemark.spark_jobs.core.bound import Choice, ChosenBound, OwnBounds, choose_bound_at_start
from tidemark.spark_jobs.core.client import ControllerClient, ControllerUnavailable
from tidemark.spark_jobs.core.watch import BoundWatch
from tidemark.spark_jobs.restart.runner import EXIT_NEW_BOUND, AdaptiveQuery, Parts

from support.job_settings import read_settings

OWN_MS = 60_000
COOLDOWN_S = 300.0


def choose(folder: Path, stream: str, client: ControllerClient | None, pin: Pin | None = None) -> ChosenBound:
    settings = read_settings(
        dict[str, str]().get,
        job="j",
        stream=stream,
        pin=pin,
        cache_dir=folder,
        restart_marker=folder / "by conf",
    )
    return choose_bound_at_start(settings, OwnBounds(OWN_MS), client).chosen


class FakeQuery(StreamingQuery):
    """A query in a world whose time only passes while somebody waits for it."""

    def __init__(self, world: World, chosen: ChosenBound) -> None:
        self.world, self.chosen = world, chosen
        self.began_s = world.now_s
        self.over = False

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802 - Spark's name
        idle: dict[str, dict[str, int]] = {"durationMs": {}}
        batch = {"durationMs": {"addBatch": 1}}
        return [idle, batch] if self.world.now_s >= self.began_s + self.world.batch_s else [idle]

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - Spark's name
        self.world.wait(timeout or 0)
        self.world.fail(self)
        return self.over

    def stop(self) -> None:
        self.over = True


@dataclass
class World:
    """A job with one stream, its controller, and time."""

    folder: Path
    now_s: float = 1_000.0
    batch_s: float = 10.0
    answer: BoundAnswer | None = None
    asked: int = 0
    """How often a start asked for a bound."""
    away: bool = False
    fails_with: set[int] = field(default_factory=set)
    """Bounds in milliseconds with which the query fails in its first batch."""
    does_not_start_with: set[int] = field(default_factory=set)
    endable: bool = True
    pin: Pin | None = None
    queries: list[FakeQuery] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    url: str = "http://c"
    drawn: float = 0.5
    """What is drawn at random: how long to wait before a restart, and between tries."""

    def publish(self, bound_ms: int | None, mode: Mode = "Restart", pin: Pin | None = None) -> None:
        """Let the controller say this from now on."""
        generation = 1 if self.answer is None else self.answer.generation + 1
        self.answer = BoundAnswer(
            job="j",
            stream="s",
            mode=mode,
            generation=generation,
            bound_ms=bound_ms,
            reason="r",
            pin=pin,
        )

    def at(self, seconds: float, happens: Callable[[], object]) -> None:
        """Let something happen so many seconds from now."""
        self.later.append((self.now_s + seconds, happens))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        due = [happens for at_s, happens in self.later if at_s <= self.now_s]
        self.later = [(at_s, happens) for at_s, happens in self.later if at_s > self.now_s]
        for happens in due:
            happens()

    def fail(self, query: FakeQuery) -> None:
        in_first_batch = self.now_s < query.began_s + self.batch_s
        if in_first_batch and query.chosen.bound_ms in self.fails_with:
            query.over = True
            raise StreamingQueryException("no memory\nand a long plan")

    def clock_us(self) -> int:
        return round(self.now_s * 1_000_000)

    def bound(self, job: str, stream: str) -> BoundAnswer:
        assert (job, stream) == ("j", "s")
        self.asked += 1
        if self.away or self.answer is None:
            raise ControllerUnavailable("away")
        return self.answer

    def build(self) -> FakeQuery:
        """Build the plan, as a user's function would."""
        chosen = choose(self.folder, "s", cast("ControllerClient", self), self.pin)
        if chosen.bound_ms in self.does_not_start_with:
            raise RuntimeError("no such topic")
        self.queries.append(FakeQuery(self, chosen))
        return self.queries[-1]

    def end(self, query: StreamingQuery, patience_s: float) -> bool:
        if self.endable:
            cast("FakeQuery", query).over = True
            return True
        self.wait(patience_s)
        return False

    def finish(self) -> None:
        """Let the query end by itself."""
        self.queries[-1].stop()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.wait(seconds)

    def runner(self, **options: Any) -> AdaptiveQuery:
        parts = Parts(
            watch=lambda _: cast("BoundWatch", FakeWatch(self)),
            end=self.end,
            clock_us=self.clock_us,
            monotonic=lambda: self.now_s,
            sleep=self.sleep,
            draw=lambda: self.drawn,
        )
        return AdaptiveQuery(self.build, cooldown_s=COOLDOWN_S, parts=parts, **options)

    def run_until(self, seconds: float, **options: Any) -> int:
        """Run the job for so long; then it ends by itself."""
        self.at(seconds, self.finish)
        return self.runner(**options).run()

    @property
    def bounds(self) -> list[int]:
        """The bounds of all starts, in order."""
        return [query.chosen.bound_ms for query in self.queries]

    @property
    def starts_s(self) -> list[float]:
        """When the query started, in seconds since the first start."""
        return [query.began_s - self.queries[0].began_s for query in self.queries]


class FakeWatch:
    """What the world's controller says, without any delay."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def latest(self) -> BoundAnswer | None:
        return self.world.answer

    def start(self) -> None:
        """Nothing to begin."""

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a job in mode Restart that runs with generation 1, 5 s."""
    made = World(tmp_path)
    made.publish(5_000)
    return made


# -- what it restarts for ---------------------------------------------------------------------------------------


def test_a_wider_bound_is_taken_at_once(world: World) -> None:
    world.drawn = 0.0
    world.at(100, lambda: world.publish(9_000))

    assert world.run_until(1_000) == 0
    assert world.bounds == [5_000, 9_000]
    assert world.starts_s[1] == pytest.approx(100, abs=2)


def test_a_narrower_bound_is_taken_after_a_cooldown(world: World) -> None:
    world.drawn = 0.0
    world.at(100, lambda: world.publish(2_000))
    world.run_until(1_000)

    assert world.bounds == [5_000, 2_000]
    assert world.starts_s[1] == pytest.approx(100 + COOLDOWN_S, abs=2)


def test_several_changes_within_a_cooldown_are_one_restart_and_the_newest_wins(world: World) -> None:
    world.drawn = 0.0
    for seconds, bound_ms in ((100, 9_000), (120, 10_000), (200, 12_000), (250, 11_000)):
        world.at(seconds, lambda bound_ms=bound_ms: world.publish(bound_ms))  # type: ignore[misc]  # its default is an int
    world.run_until(2_000)

    assert world.bounds == [5_000, 9_000, 11_000]
    assert world.starts_s[2] == pytest.approx(100 + COOLDOWN_S, abs=2)


@pytest.mark.parametrize("mode", ["OnRestart", "Off", "Live"])
def test_in_every_other_mode_the_query_is_left_alone(world: World, mode: Mode) -> None:
    world.at(100, lambda: world.publish(None if mode == "Off" else 9_000, mode))
    world.run_until(1_000)

    assert world.bounds == [5_000]


def test_a_restart_that_waits_is_off_when_the_mode_changes(world: World) -> None:
    world.at(100, lambda: world.publish(2_000))
    world.at(200, lambda: world.publish(2_000, "OnRestart"))
    world.run_until(1_000)

    assert world.bounds == [5_000]


def test_a_kill_switch_of_the_controller_is_obeyed_at_once(world: World) -> None:
    world.drawn = 0.0
    world.at(100, lambda: world.publish(9_000))
    world.at(110, lambda: world.publish(9_000, pin="Off"))
    world.run_until(1_000)

    assert world.bounds == [5_000, 9_000, OWN_MS]
    assert world.starts_s[2] == pytest.approx(110, abs=2)


def test_a_job_that_pins_itself_is_never_restarted(world: World) -> None:
    world.pin = "Off"
    world.at(100, lambda: world.publish(90_000))
    world.run_until(1_000)

    assert world.bounds == [OWN_MS]


def test_a_restart_takes_the_bound_that_it_is_for_and_asks_for_no_other(world: World) -> None:
    """Else the start could get another answer than the restart was for."""
    world.at(100, lambda: world.publish(9_000))
    world.at(1_000, lambda: world.publish(7_000))
    world.run_until(3_000)

    assert world.bounds == [5_000, 9_000, 7_000]
    assert [query.chosen.generation for query in world.queries] == [1, 2, 3]
    assert world.asked == 1, "the first start"


def test_a_bound_that_is_already_applied_brings_no_restart(world: World) -> None:
    """A generation may only say another reason."""
    world.at(100, lambda: world.publish(5_000))
    world.run_until(1_000)

    assert world.bounds == [5_000]


def test_an_outage_of_the_controller_changes_nothing_and_stops_no_restart_that_was_published(
    world: World,
) -> None:
    def publish_and_leave() -> None:
        world.publish(9_000)
        world.away = True

    world.at(100, publish_and_leave)
    world.run_until(2_000)

    assert world.bounds == [5_000, 9_000]


def test_a_query_without_a_gap_between_its_batches_is_left_alone_for_a_cooldown(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.endable = False
    world.at(100, lambda: world.publish(9_000))
    world.at(900, lambda: setattr(world, "endable", True))
    world.run_until(3_000, patience_s=60.0)

    assert world.bounds == [5_000, 9_000]
    assert caplog.text.count("so the query runs on") == 3


def test_a_restart_that_has_to_wait_is_announced_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.at(100, lambda: world.publish(2_000))
    world.run_until(300)

    assert (
        caplog.text.count("generation 2 asks for 2 s in place of 5 s; the query restarts for it in 5 min")
        == 1
    )


# -- what it puts back ------------------------------------------------------------------------------------------


def test_a_bound_that_fails_is_put_back_and_not_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.fails_with = {9_000}
    world.at(100, lambda: world.publish(9_000))
    world.run_until(10_000)

    assert world.bounds == [5_000, 9_000, 5_000]
    assert world.queries[2].chosen.generation == 1
    for part in ("no memory", "generation 2, 9 s, failed and is not tried again; 5 s is put back"):
        assert part in caplog.text


def test_after_a_bound_that_failed_a_newer_one_is_tried_when_its_time_has_come(world: World) -> None:
    world.fails_with = {9_000}
    world.at(100, lambda: world.publish(9_000))
    world.at(150, lambda: world.publish(10_000))
    world.run_until(10_000)

    assert world.bounds == [5_000, 9_000, 5_000, 10_000]
    assert world.starts_s[3] - world.starts_s[1] == pytest.approx(0.75 * 2 * COOLDOWN_S, abs=5)


def test_a_plan_that_cannot_be_built_with_a_bound_is_put_back_too(world: World) -> None:
    world.does_not_start_with = {9_000}
    world.at(100, lambda: world.publish(9_000))
    world.run_until(10_000)

    assert world.bounds == [5_000, 5_000]


def test_what_was_put_back_is_brought_up_with_growing_pauses_and_then_given_up(world: World) -> None:
    """The query ran well until the runner ended it, so the runner does not give up at the first trouble."""

    def trouble() -> None:
        world.publish(9_000)
        world.does_not_start_with = {9_000, 5_000}

    world.at(100, trouble)
    with pytest.raises(RuntimeError, match="no such topic"):
        world.run_until(10_000)

    assert world.pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]


def test_what_was_put_back_and_works_has_all_its_tries_again(world: World) -> None:
    world.fails_with = {9_000, 10_000}
    world.at(100, lambda: world.publish(9_000))
    world.at(2_000, lambda: world.publish(10_000))
    world.run_until(10_000)

    assert world.bounds == [5_000, 9_000, 5_000, 10_000, 5_000]
    assert world.pauses == [1.0, 1.0]


def test_a_query_that_fails_on_its_own_is_not_the_runners_business(world: World) -> None:
    """Neither at its first start nor after a batch with a new bound."""
    world.fails_with = {5_000}
    with pytest.raises(StreamingQueryException, match="no memory"):
        world.run_until(1_000)
    world.fails_with = set()

    def fail_now() -> None:
        raise StreamingQueryException("the sink is full")

    world.at(100, lambda: world.publish(9_000))
    world.at(200, fail_now)
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        world.run_until(1_000)
    assert world.bounds == [5_000, 5_000, 9_000]


def test_what_cannot_be_built_at_the_first_start_is_raised(world: World) -> None:
    world.does_not_start_with = {5_000}
    with pytest.raises(RuntimeError, match="no such topic"):
        world.run_until(1_000)


# -- ending -----------------------------------------------------------------------------------------------------


def test_a_query_that_ends_by_itself_ends_the_run(world: World) -> None:
    """As ``trigger(availableNow=True)`` does."""
    assert world.run_until(50) == 0
    assert world.bounds == [5_000]


def test_stopping_ends_the_query_after_its_batch(world: World) -> None:
    runner = world.runner()
    world.at(50, runner.stop)

    assert runner.run() == 0
    assert runner.query is world.queries[-1]
    assert world.queries[-1].over


def test_stopping_ends_the_pause_before_a_new_try_too(world: World) -> None:
    world.fails_with = {9_000}
    runner = world.runner()
    world.at(100, lambda: world.publish(9_000))
    # The random wait before the restart is half of its longest.
    world.at(101.5 + COOLDOWN_S / 20, runner.stop)

    assert runner.run() == 0
    assert world.bounds == [5_000, 9_000]


def test_a_job_under_a_scheduler_exits_with_a_code_and_a_marker(world: World) -> None:
    marker = world.folder / "run" / "marker.json"
    world.at(400, lambda: world.publish(9_000))

    assert world.run_until(1_000, exit_on_new_bound=True, marker=marker) == EXIT_NEW_BOUND == 75
    assert world.queries[-1].over
    assert json.loads(marker.read_text()) == {
        "job": "j",
        "stream": "s",
        "generation": 2,
        "bound_ms": 9_000,
        "before_ms": 5_000,
        "ended_us": world.clock_us(),
    }


def test_the_conf_names_the_marker_where_the_call_does_not(world: World) -> None:
    world.at(400, lambda: world.publish(9_000))
    assert world.run_until(1_000, exit_on_new_bound=True) == EXIT_NEW_BOUND
    assert json.loads((world.folder / "by conf").read_text())["bound_ms"] == 9_000


def test_a_job_under_a_scheduler_runs_for_a_cooldown_at_least(world: World) -> None:
    """Its start may have been for a bound already."""
    world.at(10, lambda: world.publish(9_000))
    began_s = world.now_s
    world.run_until(1_000, exit_on_new_bound=True, marker=world.folder / "marker")

    assert world.now_s - began_s == pytest.approx(COOLDOWN_S, abs=2)


def test_a_marker_that_cannot_be_written_does_not_change_the_code(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    (world.folder / "file").write_text("")
    world.at(400, lambda: world.publish(9_000))

    assert (
        world.run_until(1_000, exit_on_new_bound=True, marker=world.folder / "file" / "m") == EXIT_NEW_BOUND
    )
    assert "cannot be written" in caplog.text


def test_a_function_that_does_not_start_the_query_is_an_error_that_says_so() -> None:
    with pytest.raises(
        TypeError, match="must start the query and return it, a StreamingQuery; it returned a str"
    ):
        AdaptiveQuery(cast("Callable[[], StreamingQuery]", lambda: "a writer")).run()


def test_only_streams_that_can_be_moved_are_watched(world: World) -> None:
    """A stream without a controller, or pinned by its job, has nothing to hear."""
    watched: list[Choice] = []

    def build() -> FakeQuery:
        choose(world.folder, "alone", None)
        choose(world.folder, "pinned", cast("ControllerClient", world), "Off")
        return world.build()

    def watch(choice: Choice) -> BoundWatch:
        watched.append(choice)
        return cast("BoundWatch", FakeWatch(world))

    world.at(5, world.finish)
    AdaptiveQuery(build, parts=Parts(watch=watch, end=world.end)).run()

    assert [choice.settings.stream for choice in watched] == ["s"]
