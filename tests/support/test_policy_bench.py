"""The bench of the policy: what is asked, what is kept, and that it goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support import policy_bench as bench
from support.import_graph import all_imported
from support.policy_bench import (
    BASELINES,
    LIVE,
    TARGETS_PPM,
    TIDEMARK,
    TRIGGERS_US,
    WINDOW_US,
    Cell,
    cells,
    judged,
    main,
    recorded,
    table,
)
from support.tree import ROOT

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


def test_streams_may_have_changing_traffic() -> None:
    steady, swinging = (
        cells(quick=True, minutes=30, traffic=each)[0].trace() for each in ("steady", "swing")
    )
    assert len(swinging.event_time_us) < 0.6 * len(steady.event_time_us)


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
    by_restarts = {one["policy"]: one for one in judged(replace(TINY[0], mode="restart"), "tidemark")[:2]}
    (live, *_) = judged(TINY[0], "tidemark")
    assert tuple(by_restarts) == TIDEMARK["restart"]
    assert {**by_restarts[LIVE], "mode": "live", "policy": "tidemark"} == live
    assert by_restarts["tidemark"]["latency_us"] != live["latency_us"]


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
    main(["--processes", "1"])
    assert "tidemark has done 0 and the baselines 0" in capsys.readouterr().out
    (kept,) = tmp_path.glob("tidemark-*.jsonl")
    lines = kept.read_text().split("\n\n")
    assert len(lines) == 2
    kept.write_text(lines[0] + "\n" + lines[1][: len(lines[1]) // 2])
    (shown,) = tmp_path.glob("*.md")
    whole = shown.read_text()
    shown.unlink()
    main(["--processes", "1"])
    assert "tidemark has done 1 and the baselines 2" in capsys.readouterr().out
    assert sorted(shown.read_text().splitlines()) == sorted(whole.splitlines())
    assert whole.count("| tidemark |") == len(TINY) * len(TARGETS_PPM) + 1
    assert all(f"| all | 1 s |  | {policy} |" in whole for policy in ("tidemark", *BASELINES["live"]))


def test_when_the_policy_changes_the_baselines_need_not_run_again() -> None:
    """Their code does not import it."""
    ours, others = (all_imported(bench.modules(part, "live")) for part in ("tidemark", "baselines"))
    live = ROOT / "models" / "live"
    assert {live / "tidemark.py", live / "missing.py", live / "defaults.py"} <= ours - others
    assert {
        ROOT / "tests" / "bench" / "policies" / "trackers.py",
        ROOT / "tests" / "support" / "synthetic.py",
    } <= others


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
    assert line == "| stalls | 200 ms | 99.9 % | tidemark | 1 of 2 | 5 s | 4.00 | 1.00 | 4.00 | 8.00 | 2 |"
