"""Liveness follows the progress of the loop, step by step, on a clock that never jumps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidemark.controller.base.background import GoOn
from tidemark.controller.base.settings import Settings
from tidemark.controller.control.decide.decider import Decider
from tidemark.controller.control.decide.pace import SWEEP_SECONDS

from support.controller_app import STREAM, ManualClock, make_app
from support.in_process import InProcessClient
from support.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

STREAMS = 12
STEP_SECONDS = 50.0


class SteadySeconds:
    """A steady clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Served:
    """A controller of some streams whose decisions take what ``step`` does, after its first tick."""

    def __init__(self, folder: Path) -> None:
        self.steady = SteadySeconds()
        self.clock = ManualClock()
        self.step: Callable[[int], None] = lambda _: None
        settings = Settings(database_url=f"sqlite:///{folder / 't.db'}", tick_seconds=0.01)
        self.app = make_app(settings, self.clock, self.steady)
        self.service = self.app.state.service
        self.http = InProcessClient(self.app)

    def alive(self) -> bool:
        status: int = self.http.get("/livez").status_code
        assert status in {200, 503}
        return status == 200

    def do(self, step: Callable[[int], None]) -> None:
        """Have every stream swept, and each decision take what ``step`` does."""
        # A decision under way would count as of the sweep.
        self.wait_for_ticks(2)
        self.step = step
        self.steady.seconds += SWEEP_SECONDS

    def wait_for_ticks(self, more: int) -> None:
        wanted = self.service.ticker.ticks + more
        until(lambda: self.service.ticker.ticks >= wanted, "more ticks", pause_s=0.001)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    found = Served(tmp_path)
    decide = Decider.decide

    def after_a_step(decider: Decider, stream_id: int, now_us: int, go_on: GoOn) -> bool:
        found.step(stream_id)
        return decide(decider, stream_id, now_us, go_on)

    monkeypatch.setattr(Decider, "decide", after_a_step)
    with found.http:
        for number in range(STREAMS):
            path = STREAM.replace("streams/stream", f"streams/stream-{number}")
            assert found.http.put(path + "/slo", json={"target_ppm": 990_000}).is_success
        yield found
        found.step = lambda _: None


def test_a_tick_of_ten_minutes_over_many_streams_is_alive_throughout(served: Served) -> None:
    seen: dict[int, bool] = {}

    def slowly(stream_id: int) -> None:
        served.steady.seconds += STEP_SECONDS
        seen[stream_id] = seen.get(stream_id, True) and served.alive()

    served.do(slowly)
    until(lambda: len(seen) == STREAMS, "a step of each stream", pause_s=0.001)
    served.wait_for_ticks(1)
    assert seen == dict.fromkeys(range(1, STREAMS + 1), True)


def test_a_loop_that_hangs_in_its_upkeep_is_not_alive_until_it_goes_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision that hangs is given up instead: ``test_slow_decisions``."""
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(_: int, max_seconds: float) -> None:
        hangs.set()
        assert goes_on.wait(PATIENCE_S)

    monkeypatch.setattr(served.service.ticker._upkeep, "tick", hang)
    assert hangs.wait(PATIENCE_S)
    assert served.alive()
    served.steady.seconds += 61
    assert not served.alive()
    goes_on.set()
    served.wait_for_ticks(2)
    assert served.alive()


def test_a_wall_clock_that_jumps_does_not_change_whether_the_loop_is_alive(served: Served) -> None:
    served.wait_for_ticks(1)
    for jump_us in (400 * 86_400_000_000, -800 * 86_400_000_000):
        served.clock.now_us += jump_us
        assert served.alive()


def test_the_time_without_progress_is_a_metric(served: Served) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(_: int) -> None:
        hangs.set()
        assert goes_on.wait(PATIENCE_S)

    served.do(hang)
    assert hangs.wait(PATIENCE_S)
    served.steady.seconds += 42
    text = served.http.get("/metrics").text
    goes_on.set()
    assert "\ntidemark_loop_idle_seconds 42.0\n" in text
