"""Progress without a terminal: lines by the work done."""

from __future__ import annotations

import pytest

from tidemark.controller.tools.cli.lab.progress import Lines, progress_bar


def lines(total: int | None, steps: list[int], unit: str = "slots") -> list[str]:
    said: list[str] = []
    with Lines(unit, said.append) as progress:
        task = progress.add_task("tidemark", total)
        for done in steps:
            progress.update(task, completed=done)
    return said


def test_a_long_run_says_now_and_then_how_far_it_is() -> None:
    assert lines(50_000, list(range(0, 50_001, 500))) == [
        "tidemark: 20,000 of 50,000 slots",
        "tidemark: 40,000 of 50,000 slots",
    ]


def test_a_short_run_says_nothing() -> None:
    assert lines(19_999, list(range(0, 20_000, 100))) == []


@pytest.mark.parametrize("total", [10**5, 10**6, 10**9])
def test_however_long_a_run_is_it_says_no_more_than_twenty_lines(total: int) -> None:
    said = lines(total, [part * total // 1_000 for part in range(1_001)])
    assert 4 <= len(said) <= 20
    assert f" of {total:,} slots" in said[-1]


def test_work_that_is_done_at_once_says_nothing() -> None:
    assert lines(1_000_000, [0, 1_000_000]) == []


def test_a_step_over_several_lines_says_one() -> None:
    assert len(lines(100_000, [1, 90_000, 90_001])) == 1


def test_work_of_unknown_size_is_counted_by_what_was_added() -> None:
    said: list[str] = []
    progress = Lines("rows", said.append)
    task = progress.add_task("reading", None)
    for _ in range(6):
        progress.advance(task, 2_000_000)
    assert said == ["reading: 6,000,000 rows", "reading: 10,000,000 rows"]


def test_without_a_terminal_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("slots") as progress:
        progress.update(progress.add_task("tidemark", total=30_000), completed=25_000)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "tidemark: 25,000 of 30,000 slots\n")
