"""Waiting for events."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.patience import until, until_ready


def test_what_is_waited_for_is_returned_when_it_comes() -> None:
    answers = iter([0, 0, 7])
    assert until(lambda: next(answers), "a number") == 7


def test_a_wait_in_vain_says_what_it_waited_for_and_what_it_saw_last() -> None:
    with pytest.raises(AssertionError, match=r"waited 0 s for the third batch; seen last: \[\] two came"):
        until(list, "the third batch", seen=lambda: "two came", patience_s=0)


def test_nobody_waits_for_a_server_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(AssertionError, match="it ended with 3"):
        until_ready("http://127.0.0.1:1", process)
