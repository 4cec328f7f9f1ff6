"""Progress: how far work is, now and then."""

from __future__ import annotations

import pytest

from tidemark.controller.lab.progress import progress


def said(capsys: pytest.CaptureFixture[str], total: int | None, at: dict[float, int]) -> list[str]:
    """Return the lines of work of which so much is done at some seconds."""
    now = [0.0]
    with progress("slots", total, clock=lambda: now[0]) as progressed:
        for now[0], done in at.items():
            progressed("tidemark", done)
    captured = capsys.readouterr()
    assert captured.out == ""
    return [line for line in captured.err.split("\n") if line]


def test_a_long_run_says_now_and_then_on_standard_error_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said(capsys, 50_000, {9.0: 1, 10.0: 20_000, 15.0: 30_000, 20.0: 40_000}) == [
        "tidemark: 20,000 of 50,000 slots",
        "tidemark: 40,000 of 50,000 slots",
    ]
    assert said(capsys, None, {11.0: 6_000_000}) == ["tidemark: 6,000,000 slots"]


def test_a_short_run_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, 50_000, {0.0: 0, 9.9: 50_000}) == []


def test_on_a_terminal_it_stands_in_one_line_that_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    (line,) = said(capsys, 10, {0.1: 1, 0.3: 2, 0.6: 4})
    assert [part.strip("\r") for part in line.split("\x1b[K")] == [
        "",
        "tidemark: 2 of 10 slots",
        "tidemark: 4 of 10 slots",
        "",
    ]
