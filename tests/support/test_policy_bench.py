"""The bench of the policy: what is asked, what is kept, and that it goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support import policy_bench as bench
from support.import_graph import all_imported
from support.policy_bench import (
    ALL_KINDS,
    BASELINES,
    LIVE,
    TARGETS_PPM,
    TIDEMARK,
    Cell,
    cells,
    joined,
    judged,
    main,
    recorded,
)
from support.policy_table import table
from support.synthetic import KINDS
from support.system_kinds import SYSTEM_KINDS, WINDOW_US
from support.tree import ROOT

pytestmark = pytest.mark.slow

TINY = [Cell(kind, 101, WINDOW_US, WINDOW_US // 10, 120) for kind in ("stationary", "joint")]


def test_the_whole_is_20_seeds_of_every_kind_at_two_triggers_and_two_targets() -> None:
    whole = cells()
    assert {cell.name for cell in whole} == set(ALL_KINDS) == {*KINDS, *SYSTEM_KINDS} - {"future"}
    assert len({(cell.name, cell.seed, cell.trigger_us) for cell in whole}) == len(ALL_KINDS) * 40
    assert len(whole) == len(ALL_KINDS) * 40
    assert len(TARGETS_PPM) == 2
    assert {cell.seed for cell in whole} == set(range(101, 121))
    quick = cells(quick=True)
    assert [cell.name for cell in quick] == list(ALL_KINDS)


def test_triggers_are_a_tenth_and_a_half_of_the_windows_that_suit_a_kind() -> None:
    (fine, coarse) = cells(kinds=["hourly"], seeds=[1])
    assert (fine.window_us, fine.trigger_us, coarse.trigger_us) == (60_000_000, 6_000_000, 30_000_000)
    assert {cell.seed for cell in cells(kinds=["joint"], seeds=[3, 4])} == {3, 4}
    assert cells(seeds=[]) == []


def test_system_kinds_take_no_part_where_streams_have_another_shape() -> None:
    assert {cell.name for cell in cells(rate=10)} == {cell.name for cell in cells(minutes=5)} <= set(KINDS)
    assert {cell.name for cell in cells(rate=200, pack=1, traffic="steady")} == set(ALL_KINDS)


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
        "a.parquet",
        "/traces/a.parquet",
        60_000_000,
        5_000_000,
    )
    assert (other.name, other.trigger_us) == ("b.parquet", 86_400_000_000)


def test_what_was_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that was cut off while it was written is done again, and only that one."""
    monkeypatch.setattr(bench, "cells", lambda **_: TINY)
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    main(["--processes", "1", "--baselines"])
    assert "done of 2 traces: yardsticks 0, tidemark 0, baselines 0" in capsys.readouterr().out
    (kept,) = tmp_path.glob("tidemark-*.jsonl")
    lines = kept.read_text().split("\n\n")
    assert len(lines) == 2
    kept.write_text(lines[0] + "\n" + lines[1][: len(lines[1]) // 2])
    (shown,) = tmp_path.glob("*.md")
    whole = shown.read_text()
    shown.unlink()
    main(["--processes", "1", "--baselines"])
    assert "done of 2 traces: yardsticks 2, tidemark 1, baselines 2" in capsys.readouterr().out
    assert sorted(shown.read_text().splitlines()) == sorted(whole.splitlines())
    assert whole.count("| tidemark |") == len(TINY) * len(TARGETS_PPM) + len(TARGETS_PPM) + 1
    assert all(f"| all synthetic kinds | all | both | {policy} |" in whole for policy in BASELINES["live"])
    main(["--processes", "1"])
    without = capsys.readouterr().out
    assert "| all synthetic kinds | all | both | tidemark |" in without
    assert "ring:certified" not in without


@pytest.mark.parametrize("part", ["yardsticks", "baselines"])
def test_when_the_policy_changes_nothing_else_runs_again(part: str) -> None:
    """Its code does not import the policy."""
    ours, others = (all_imported(bench.modules(each, "live")) for each in ("tidemark", part))
    live = ROOT / "models" / "live"
    assert {live / "tidemark.py", live / "missing.py", live / "defaults.py"} <= ours - others
    support = ROOT / "tests" / "support"
    assert {support / "synthetic.py", support / "system_kinds.py"} <= others
    assert (ROOT / "tests" / "bench" / "policies" / "ring.py" in others) == (part == "baselines")


ONE = {
    "name": "stalls",
    "seed": 101,
    "trigger_us": 200_000,
    "target_ppm": 999_000,
    "policy": "tidemark",
    "met": True,
    "completeness": 0.9999,
    "latency_us": 1e6,
    "hindsight_us": 1e6,
    "flink_us": 4e6,
    "clairvoyant_us": 0.5e6,
    "careful": 0.9999,
}
MISSED = {**ONE, "met": False, "completeness": 0.998_999_9, "latency_us": 4e6, "flink_us": 0.5e6}


def test_the_table_counts_what_was_met_and_compares_with_the_better_constant() -> None:
    """Geometric means of 1 and 8 times the lower of Spark's and Flink's; a share is rounded down."""
    line = next(line for line in table([ONE, MISSED]).splitlines() if line.startswith("| stalls"))
    assert line == "| stalls | 200 ms | 99.9 % | tidemark | 1 of 2 | 99.899 % | 2.5 s | 2.83 | 8.00 | 4.00 |"


def test_synthetic_system_and_recorded_traces_have_means_of_their_own() -> None:
    shown = table([ONE, {**ONE, "name": "spike", "latency_us": 2e6}, {**ONE, "name": "spike.parquet"}])
    assert (
        "| all synthetic kinds | all | both | tidemark | 1 of 1 | 99.990 % | 1 s | 1.00 | 1.00 | 2.00 |"
        in shown
    )
    assert (
        "| all system kinds | all | 99.9 % | tidemark | 1 of 1 | 99.990 % | 2 s | 2.00 | 2.00 | 4.00 |"
        in shown
    )
    assert "| all recorded | all | both | tidemark | 1 of 1 |" in shown


def test_cells_that_are_missed_or_slow_are_named_with_their_yardsticks() -> None:
    shown = table([ONE, MISSED, {**MISSED, "policy": "max60"}])
    cell = (
        "- stalls, seed 101, 200 ms, 99.9 %: missed with 99.899 % at 4 s; Spark's best constant 1 s, Flink 0.5 s, "
        "clairvoyant 0.5 s; as careful as was ever needed before: 99.990 %"
    )
    assert f"missed by tidemark: 1 of 2 cells, 0 of them beyond what was seen before\n{cell}\n" in shown
    assert f"above 1.05 x better: 1 of 2 cells\n{cell}\n" in shown


def test_a_target_that_the_most_careful_misses_too_is_beyond_what_was_seen() -> None:
    shown = table([{**MISSED, "careful": 0.998}, MISSED])
    assert "missed by tidemark: 2 of 2 cells, 1 of them beyond what was seen before" in shown


def test_nothing_that_meets_the_target_is_faster_than_the_clairvoyant() -> None:
    cell = dict.fromkeys(Cell.__dataclass_fields__, "")
    yardsticks = [{**cell, **ONE}]
    with pytest.raises(AssertionError, match="below the clairvoyant"):
        joined({"yardsticks": yardsticks, "tidemark": [{**cell, **ONE, "latency_us": 0.4e6}]})
