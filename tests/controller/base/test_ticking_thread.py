"""The thread that ticks until it is stopped."""

from __future__ import annotations

import threading

import pytest

from tidemark.controller.base.background import TickingThread

from support.patience import PATIENCE_S


def test_a_tick_that_fails_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    ticks: list[int] = []
    second = threading.Event()

    def tick() -> None:
        ticks.append(len(ticks))
        if len(ticks) == 1:
            raise OSError("no answer")
        second.set()

    thread = TickingThread("test", tick, 0.001, stop_seconds=PATIENCE_S)
    thread.start()
    assert second.wait(PATIENCE_S)
    thread.stop()
    assert not thread.alive
    (record,) = [each for each in caplog.records if "a tick of tidemark-test failed" in each.getMessage()]
    assert record.exc_info is not None
    assert repr(record.exc_info[1]) == "OSError('no answer')"


def test_the_first_tick_comes_at_the_start_where_that_is_wanted_and_a_stop_ends_the_pause() -> None:
    ticked = threading.Event()
    thread = TickingThread("test", ticked.set, 3_600, stop_seconds=PATIENCE_S, at_once=True)
    thread.start()
    assert ticked.wait(PATIENCE_S)
    thread.stop()
    assert not thread.alive


def test_one_that_was_never_started_can_be_stopped() -> None:
    thread = TickingThread("test", lambda: None, 3_600, stop_seconds=PATIENCE_S)
    thread.stop()
    assert thread.stopping.is_set()
