"""``tidemark backtest``: figures counted again from the trace and the timeline, its files, bad input in one line."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tidemark.controller.lab.traces import format as trace_format
from tidemark.controller.lab.traces.format import Trace, read_trace, write_trace
from tidemark.controller.tools.cli import app
from tidemark.models.backtest.catalogue import policy_forms, policy_names
from tidemark.models.base.operators import sliding, tumbling

from support.docs import document_with
from support.laboratory import Command
from support.soak import with_soak
from support.streams import SECOND

START = 1_700_000_000 * SECOND
FIELDS = [
    "trace",
    "policy",
    "target_ppm",
    "rows",
    "late",
    "completeness_ppm",
    "windows",
    "windows_meeting_target_ppm",
    "minutes_meeting_target_ppm",
    "worst_minute_ppm",
    "latency_mean_us",
    "latency_p95_us",
    "bound_mean_us",
    "bound_changes",
    "objective",
    "mode",
    "decided",
    "meets_target",
    "lag_median_us",
    "fixed_hindsight_bound_us",
    "fixed_hindsight_latency_us",
    "clairvoyant_latency_us",
]

backtest = Command("backtest")


def records(*arguments: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(backtest.said(*arguments, "-o", "json"))
    return found


def refused(*arguments: str | Path) -> str:
    return backtest.refused(*arguments, *(() if "--policy" in arguments else ("--policy", "fixed:1s")))


def save(path: Path, trace: Trace) -> Path:
    write_trace(path, trace)
    return path


def fleet(seed: int, rows: int = 4_000) -> Trace:
    """Return some minutes of three partitions, the last of which trails; some silent moments."""
    rng = np.random.default_rng(seed)
    event = START + np.sort(rng.integers(0, 300 * SECOND, rows))
    event = event[(event // SECOND) % 60 < 50]
    partition = rng.integers(0, 3, len(event)).astype(np.int32)
    delay = rng.exponential(1.5 * SECOND, len(event)) * np.where(partition == 2, 3, 1)
    arrival = event + delay.astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    return Trace(event[order], arrival[order], partition[order], ("p0", "p1", "p2"))


@pytest.fixture(scope="module", name="path")
def _path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("fleet") / "fleet.parquet", fleet(1))


def test_rows_that_no_delay_explains_are_left_out_of_every_policy_and_counted(tmp_path: Path) -> None:
    """The best constant bound was 20,000 days, and every policy missed its target."""
    plain = fleet(3)
    event = plain.event_time_us.copy()
    event[::20] //= 1_000
    path = save(tmp_path / "a.parquet", replace(plain, event_time_us=event))
    result = backtest.run(path, "--policy", "fixed-hindsight", "-o", "json")
    (record,) = json.loads(result.stdout)
    left = len(plain) - len(event[::20])
    assert (record["rows"], result.stderr.split(" of partitions")[0]) == (
        left,
        f"left out: {len(event[::20])} rows",
    )
    assert "seconds read as milliseconds?" in result.stderr
    assert record["fixed_hindsight_bound_us"] < 3_600 * SECOND


# -- the figures ---------------------------------------------------------------------------------------------

POLICIES = ("fixed-hindsight", "fixed:3s", "flink", "max60")


def test_json_has_a_record_for_each_trace_and_policy_with_exactly_the_fields(
    path: Path, tmp_path: Path
) -> None:
    """In the order asked for, the trace as it was named."""
    other = save(tmp_path / "other.parquet", fleet(2))
    found = records(path, other, *(part for name in POLICIES for part in ("--policy", name)))

    assert [(one["trace"], one["policy"]) for one in found] == [
        (str(trace), name) for trace in (path, other) for name in POLICIES
    ]
    assert [tuple(one) for one in found] == [tuple(FIELDS)] * 8


@pytest.mark.parametrize("options", [(), ("--window", "0")])
def test_the_figures_of_a_record_agree_with_each_other(path: Path, options: tuple[str, ...]) -> None:
    """Shares are shares, the target is met or not, nobody is below the clairvoyant."""
    for one in records(
        path, *options, "--target", "0.95", *(p for name in POLICIES for p in ("--policy", name))
    ):
        assert one["target_ppm"] == 950_000
        assert one["rows"] == len(fleet(1))
        assert one["completeness_ppm"] == (one["rows"] - one["late"]) * 1_000_000 // one["rows"]
        assert one["meets_target"] == (one["late"] <= 0.05 * one["rows"] + 1e-9)
        for name in ("completeness_ppm", "windows_meeting_target_ppm", "minutes_meeting_target_ppm"):
            assert 0 <= one[name] <= 1_000_000, name
        assert 0 <= one["worst_minute_ppm"] <= one["completeness_ppm"]
        if one["meets_target"]:
            assert one["latency_mean_us"] >= one["clairvoyant_latency_us"]
        assert one["fixed_hindsight_latency_us"] >= one["clairvoyant_latency_us"]
        assert not [name for name, value in one.items() if isinstance(value, float)]


def test_fixed_hindsight_is_the_policy_of_its_own_yardstick(path: Path) -> None:
    """It meets the target with the bound that the records name, and a millisecond less does not."""
    (best,) = records(path, "--policy", "fixed-hindsight")
    bound_ms = best["fixed_hindsight_bound_us"] // 1_000

    assert best["meets_target"]
    assert best["latency_mean_us"] == best["fixed_hindsight_latency_us"]
    assert best["bound_mean_us"] == best["fixed_hindsight_bound_us"]
    assert best["bound_changes"] == 0
    (same,) = records(path, "--policy", f"fixed:{bound_ms}ms")
    assert {**same, "policy": ""} == {**best, "policy": ""}
    (less,) = records(path, "--policy", f"fixed:{bound_ms - 1}ms")
    assert not less["meets_target"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", with_soak(["fixed:3s", *policy_names()], set(policy_names()) - {"flink", "max60", "tidemark"})
)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--slide", "5s"),
        ("--trigger", "700ms"),
        ("--mode", "restart", "--restart-cost", "10s"),
    ],
    ids=" ".join,
)
def test_a_timeline_and_its_trace_give_the_figures_again(
    path: Path, tmp_path: Path, policy: str, options: tuple[str, ...]
) -> None:
    """Counted here by the rules alone: late iff key <= W(n-1), a window is emitted by the first W(n) >= its end."""
    file = tmp_path / "timeline.parquet"
    (record,) = records(path, *options, "--policy", policy, "--timeline", file)
    table = pq.read_table(file)
    batch, wall, rows, bound, watermark = (table.column(name).to_pylist() for name in table.column_names)
    trace = read_trace(path)
    operator = sliding("10s", "5s") if "--slide" in options else tumbling("10s")

    assert table.column_names == ["batch", "wall_time_us", "rows", "bound_us", "watermark_us"]
    assert batch == list(range(len(batch)))
    assert sum(rows) == len(trace)
    assert all(earlier < later for earlier, later in itertools.pairwise(wall))
    known = [value for value in watermark if value is not None]
    assert known == sorted(known)
    assert watermark[: len(watermark) - len(known)] == [None] * (len(watermark) - len(known))

    number = np.repeat(batch, rows)
    assert (trace.arrival_time_us < np.array(wall)[number]).all(), "no row is in a batch before it arrived"
    row, key = operator.keys(trace.event_time_us)
    in_force = np.array([-(2**63) if value is None else value for value in watermark])
    before = np.concatenate([[-(2**63)], in_force])[:-1]
    late = key <= before[number[row]]
    assert (record["rows"], record["late"]) == (len(key), late.sum())

    ends = np.unique(key)
    ends = ends[ends <= np.quantile(trace.event_time_us, 0.98)]
    emitted = np.minimum(np.searchsorted(in_force, ends), len(wall) - 1)
    latency = np.maximum(np.array(wall)[emitted] - ends, 0)
    assert record["windows"] == len(ends)
    assert record["latency_mean_us"] == round(latency.mean())
    if policy == "fixed:3s":
        assert {value for value in bound if value is not None} == {3 * SECOND}
        assert record["bound_changes"] == 0


def test_a_trace_in_several_chunks_gives_the_same_as_in_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots that straddle two chunks are whole again."""
    wanted = ("--policy", "max60", "--policy", "fixed:2s", "--slide", "5s")
    whole = records(path, *wanted)
    monkeypatch.setattr(trace_format, "_BATCH_ROWS", 97)

    assert records(path, *wanted) == whole


def test_timeslices_are_judged_by_windows(path: Path) -> None:
    """The share of windows that reach the target decides, not the share of rows."""
    found = records(path, "--objective", "timeslices", "--target", "0.95", "--policy", "fixed-hindsight")
    (best,) = found
    assert best["objective"] == "timeslices"
    assert best["windows_meeting_target_ppm"] >= 990_000
    assert best["meets_target"]
    (short,) = records(path, "--objective", "timeslices", "--target", "0.95", "--policy", "fixed:0")
    assert short["windows_meeting_target_ppm"] < 990_000
    assert not short["meets_target"]


@pytest.mark.slow
def test_all_stands_for_every_policy_and_a_repeated_one_counts_once(path: Path) -> None:
    """So that `all` with one more is no double work."""
    names = [
        one["policy"]
        for one in records(path, "--policy", "all", "--policy", "fixed:3s", "--policy", "fixed:3s")
    ]
    assert sorted(names) == sorted({*policy_names(), "fixed:3s"})


def test_without_policy_tidemark_is_run(path: Path) -> None:
    """It is what the command is for."""
    (one,) = records(path)
    assert one["policy"] == "tidemark"


# -- what is shown -------------------------------------------------------------------------------------------


def test_the_table_is_whole_when_piped(path: Path) -> None:
    """Each policy is one line, and says in words whether it met the target."""
    text = (
        CliRunner()
        .invoke(
            app,
            ["backtest", str(path), *(p for name in (*POLICIES, "fixed:0") for p in ("--policy", name))],
            env={"COLUMNS": None},
        )
        .stdout
    )
    by_policy = {line.split()[0]: line for line in text.splitlines() if line.strip()}

    assert set(by_policy) >= {*POLICIES, "fixed:0"}
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert " met " in by_policy["fixed-hindsight"]
    assert by_policy["fixed-hindsight"].split()[-2] == "1.00"
    assert " MISSED " in by_policy["fixed:0"]


@pytest.mark.slow
def test_one_sentence_comes_first_and_a_warning_where_the_trace_is_too_short(tmp_path: Path) -> None:
    """Into a pipe with JSON alone the warning goes to standard error."""
    short = save(tmp_path / "short.parquet", fleet(1, 400))
    sentence, warning, heading, *_ = backtest.said(short, "--target", "0.999").splitlines()
    assert sentence.startswith("On this trace Tidemark ")
    assert warning.startswith("warning: this trace is too short to learn from: Tidemark needs ")
    assert heading.startswith(f"{short}: ")
    result = backtest.run(short, "--target", "0.999", "-o", "json")
    assert json.loads(result.stdout)
    assert result.stderr.splitlines() == [warning]


def test_the_lines_above_the_table_say_what_was_replayed(path: Path) -> None:
    """Trace, size, setup and the two yardsticks."""
    text = backtest.said(
        path, "--policy", "fixed:1s", "--target", "0.995", "--slide", "5s", "--trigger", "2s"
    )
    _, first, how, yardsticks, *_ = text.splitlines()

    assert first.startswith(f"{path}: {len(fleet(1)):,} rows, 3 partitions, ")
    assert first.endswith(" slots")
    assert how.startswith("sliding window of 10 s every 5 s; trigger 2 s, live; target 0.995")
    assert re.match(
        r"fixed-hindsight: bound .* s, mean latency .* s; clairvoyant: mean latency .* s$", yardsticks
    )


def test_a_table_for_each_trace_follows_the_last(path: Path, tmp_path: Path) -> None:
    """In their order."""
    other = save(tmp_path / "other.parquet", fleet(2))
    text = backtest.said(path, other, "--policy", "fixed:1s")
    assert 0 <= text.index(f"{path}:") < text.index(f"{other}:")


def test_help_names_every_option_and_policy() -> None:
    """As reached from the command line's root."""
    text = CliRunner().invoke(app, ["backtest", "--help"], env={"COLUMNS": "200"}).output
    for option in [
        "--target",
        "--objective",
        "--window",
        "--slide",
        "--trigger",
        "--mode",
        "--restart-cost",
        "--policy",
        "--output",
        "--timeline",
    ]:
        assert option in text
    unwrapped = "".join(text.split())
    for name in policy_forms():
        assert name.replace(" ", "") in unwrapped


def _first_cells(heading: str) -> list[str]:
    table = document_with(f"| {heading} |").split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


def test_the_documents_explain_each_figure_in_its_order() -> None:
    """A field that nobody explains is guessed at."""
    assert _first_cells("figure") == list(FIELDS)


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--window", "soon"), "duration 'soon'"),
        (("--window", "-5s"), "must be above 0"),
        (("--window", "5s", "--slide", "6s"), "slide 6 s must be above 0 and at most the window's size 5 s"),
        (("--window", "0", "--slide", "6s"), "--slide needs a --window above 0"),
        (("--trigger", "0"), "the trigger must be above 0"),
        (("--restart-cost", "-1s"), "the cost of a restart must be at least 0"),
        (("--target", "1.2"), "target '1.2' must lie between 0 and 1"),
        (("--target", "0.9990000000000001"), "finer than one part per million"),
        (("--policy", "guess"), "guess"),
        (("--policy", "fixed:soon"), "soon"),
    ],
)
def test_options_that_are_not_valid_are_rejected_in_one_line(
    path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2, nothing on the standard output."""
    assert message in refused(path, *arguments)


def test_a_file_that_is_not_a_trace_is_rejected_before_any_is_replayed(path: Path, tmp_path: Path) -> None:
    """With the reason that the format gives; minutes of work are not thrown away for the last name."""
    assert "none.parquet: there is no such file" in refused(path, tmp_path / "none.parquet")
    (tmp_path / "text").write_text("no")
    assert "not a Parquet file" in refused(path, tmp_path / "text")
    nothing = Trace(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), ())
    assert "empty: the trace has no rows" in refused(path, save(tmp_path / "empty", nothing))


def test_a_damaged_row_is_named(path: Path, tmp_path: Path) -> None:
    """Found while reading."""
    table = pq.read_table(path)
    arrival = table.column("arrival_time_us").to_numpy().copy()
    arrival[5] = 0
    at = table.column_names.index("arrival_time_us")
    pq.write_table(table.set_column(at, "arrival_time_us", pa.array(arrival)), tmp_path / "bad")
    assert "column 'arrival_time_us' must ascend, but is 0 after" in refused(tmp_path / "bad")


def test_several_traces_or_policies_have_no_one_timeline(path: Path, tmp_path: Path) -> None:
    """The line says how to get them."""
    file = tmp_path / "t.parquet"
    several = ("--policy", "fixed:1s", "--policy", "fixed:2s")
    assert refused(path, path, "--timeline", file) == (
        "tidemark: --timeline takes one trace under one policy, not 2 under 1: run it once for each"
    )
    assert "not 1 under 2: run it once for each" in refused(path, *several, "--timeline", file)
    assert not file.exists()


def test_only_the_reports_of_a_stream_are_read_since_a_time(path: Path) -> None:
    assert refused(path, "--since", "2h") == (
        "tidemark: a trace is replayed whole, so it does not take --since"
    )


def test_outputs_that_cannot_be_written_are_rejected_before_the_work(path: Path, tmp_path: Path) -> None:
    """A folder that is not there, a folder itself, and the trace."""
    gone = tmp_path / "no" / "where"
    assert (
        refused(path, "--timeline", gone)
        == f"tidemark: {gone}: cannot be written: there is no folder {gone.parent}"
    )
    assert refused(path, "--timeline", tmp_path) == f"tidemark: {tmp_path}: cannot be written: it is a folder"
    assert refused(path, "--timeline", path) == f"tidemark: {path}: the output is one of the traces"
