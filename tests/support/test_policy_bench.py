"""The bench of the policy: what is asked, what is kept, and that it goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support import policy_bench as bench
from support.policy_bench import (
    LIVE,
    POLICIES,
    RESTART_POLICIES,
    TARGETS_PPM,
    TRIGGERS_US,
    WINDOW_US,
    Cell,
    cells,
    judged,
    main,
    recorded,
    table,
)

pytestmark = pytest.mark.slow

TINY = [Cell(kind, 101, WINDOW_US, TRIGGERS_US[0], 120) for kind in ("stationary", "joint")]


def test_the_whole_is_20_seeds_of_10_kinds_at_two_triggers_and_two_targets() -> None:
    whole = cells(quick=False)
    assert len(whole) * len(TARGETS_PPM) == 800
    assert len({(cell.name, cell.seed, cell.trigger_us) for cell in whole}) == 400
    assert {cell.seed for cell in whole} == set(range(101, 121))
    quick = cells(quick=True)
    assert {cell.name for cell in quick} == {cell.name for cell in whole}
    assert len(quick) == 10


def test_streams_may_have_fewer_rows_and_in_packs() -> None:
    cell = cells(quick=True, minutes=1, rate=40, pack=8)[0]
    rows = cell.trace().event_time_us
    assert len(rows) == 60 * 40
    assert len(np.unique(rows)) == len(rows) // 8


@pytest.mark.parametrize("given", [["--pack", "0"], ["--rate", "10", "--pack", "20"]])
def test_a_pack_has_at_least_a_row_and_at_most_those_of_a_second(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(given)
    assert "--pack must be at least 1, and --rate no less" in capsys.readouterr().err


def test_by_restarts_the_same_streams_are_judged_with_live_beside() -> None:
    """The same yardsticks: of one trace, what the recommendation did and what Live did."""
    assert [replace(cell, mode="live") for cell in cells(quick=True, mode="restart")] == cells(quick=True)
    by_restarts = judged(replace(TINY[0], mode="restart"))[: len(RESTART_POLICIES)]
    (live, *_) = judged(TINY[0])
    found = {one["policy"]: one for one in by_restarts}
    assert tuple(found) == RESTART_POLICIES
    assert {**found[LIVE], "mode": "live", "policy": "tidemark"} == live
    assert found["tidemark"]["latency_us"] != live["latency_us"]


def test_real_traces_are_named_with_their_window_and_trigger() -> None:
    (one, other) = recorded("/traces/a.parquet:60s:5s, b.parquet:7d:1d")
    assert (one.name, one.path, one.window_us, one.trigger_us) == (
        "a",
        "/traces/a.parquet",
        60_000_000,
        5_000_000,
    )
    assert (other.name, other.trigger_us) == ("b", 86_400_000_000)


def test_what_was_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that was cut off while it was written is done again, and only that one."""
    monkeypatch.setattr(bench, "cells", lambda **_: TINY)
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    for folder in ("models", "tests/support"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/support/synthetic.py").touch()
    main(["--processes", "1"])
    assert "0 of 2 traces are done" in capsys.readouterr().out
    (kept,) = tmp_path.glob("*.jsonl")
    lines = kept.read_text().split("\n\n")
    assert len(lines) == 2
    kept.write_text(lines[0] + "\n" + lines[1][: len(lines[1]) // 2])
    (shown,) = tmp_path.glob("*.md")
    whole = shown.read_text()
    shown.unlink()
    main(["--processes", "1"])
    assert "1 of 2 traces are done" in capsys.readouterr().out
    assert sorted(shown.read_text().splitlines()) == sorted(whole.splitlines())
    assert whole.count("| tidemark |") == len(TINY) * len(TARGETS_PPM) + 1
    assert all(f"| all |  |  | {policy} |" in whole for policy in POLICIES)


def test_the_table_counts_what_was_met_and_takes_the_geometric_mean_of_the_ratios() -> None:
    one = {
        "name": "stalls",
        "trigger_us": 200_000,
        "target_ppm": 999_000,
        "policy": "tidemark",
        "met": True,
        "latency_us": 2e6,
        "hindsight_us": 1e6,
        "flink_us": 4e6,
        "clairvoyant_us": 1e6,
    }
    other = {**one, "met": False, "latency_us": 8e6}
    line = next(line for line in table([one, other]).splitlines() if line.startswith("| stalls"))
    assert line == "| stalls | 200 ms | 99.9 % | tidemark | 1 of 2 | 5 s | 4.00 | 1.00 | 4.00 | 8.00 |"
