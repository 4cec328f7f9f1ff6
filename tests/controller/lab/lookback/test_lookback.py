"""``tidemark lookback``: every kind of source, what it writes for dbt and SQLMesh, and bad input in one line."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from tidemark.controller.tools.cli import app

from support.docs import code_blocks
from support.laboratory import Command
from support.lookback_figure import DAY, FIGURE, SECOND, lookback_figure, times
from support.lookback_figure import orders as table
from support.tree import ROOT

lookback = Command("lookback")

BOTH = ("--event-time", "event_time", "--loaded-at", "loaded_at")
PAGE = ROOT / "docs" / "how-to" / "lookback.md"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("orders") / "orders.parquet"
    pq.write_table(table(), path)
    return path


def document(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lookback.said(*arguments, *BOTH, "-o", "json"))
    return found


def test_the_answer_names_the_look_back_the_cheap_sets_and_what_they_cost(orders: Path) -> None:
    """The rows would do with 2, but say no more of days to come than that 94.7 % are in by then."""
    found = document(orders, "--target", "95%")
    readings = found["readings"]
    assert (found["look_back"], found["look_back_of_this_table"]) == (3, 2)
    kept = [readings[f"0 to {back}"]["kept_ppm"] for back in (1, 2, 3)]
    assert kept == [900_127, 960_127, 980_466]
    assert readings["0 to 2"]["min_ppm"] < 950_000 <= readings["0 to 3"]["min_ppm"]
    cost = {name: (found["periods"], found["rows_a_run"]) for name, found in readings.items()}
    assert cost["0 to 3"] == ([0, 1, 2, 3], 1_136)
    assert cost["cheapest"] == ([0, 1, 3], 752)
    assert cost["cheapest at target"] == ([0, 1, 2, 3], 1_136)
    assert readings["cheapest"]["meanwhile_ppm"] == 937_508
    assert found["trend"].endswith("by themselves they would take 2 and 2: no change beyond chance")


def test_people_see_what_is_left_out_and_each_look_back(orders: Path) -> None:
    text = lookback.said(orders, *BOTH, "--target", "95%")
    assert re.search(
        r"^0 to 3 +98.0466 % +97\.\d+ % +98\.\d+ % +98.0466 % +1,136 +2\.84$", text, re.MULTILINE
    )
    assert "\nlook-back 3 keeps 98.0466 % of the rows, " in text
    assert ": dbt lookback 3, SQLMesh 2\n" in text
    assert "\ncheapest: periods 0, 1, 3\n" in text
    assert "400 rows of periods before the first load\n" in text


def test_a_change_for_the_worse_is_said(tmp_path: Path) -> None:
    event, loaded = times()
    worse = save(tmp_path / "worse.parquet", event, np.where(event > event[12_000], loaded + 2 * DAY, loaded))
    assert document(worse, "--target", "95%")["trend"].endswith("they would take 2 and 4: it gets worse")


def test_a_run_that_starts_hours_after_midnight_needs_less(tmp_path: Path) -> None:
    """What is loaded at two in the morning is there for a run at three, and for one at midnight a day later."""
    event, _ = times()
    loaded = (event // DAY + 1) * DAY + 7_200 * SECOND
    pq.write_table(pa.table({"event_time": event, "loaded_at": loaded}), tmp_path / "t.parquet")
    at_midnight, at_three = (
        document(tmp_path / "t.parquet", "--unit", "us", "--at", at)["look_back"] for at in ("0", "3h")
    )
    assert (at_midnight, at_three) == (2, 1)


# -- what is written -------------------------------------------------------------------------------------------------


def test_dbt_gets_the_configuration_of_a_microbatch(orders: Path) -> None:
    """Tried with dbt 1.11: with a look-back of 2, a run on the 30th reads the 28th, the 29th and the 30th."""
    found = yaml.safe_load(lookback.said(orders, *BOTH, "--target", "95%", "--for", "dbt"))
    assert found == {
        "config": {
            "incremental_strategy": "microbatch",
            "event_time": "event_time",
            "batch_size": "day",
            "lookback": 3,
        }
    }


@pytest.mark.parametrize(
    ("target", "kind"),
    [("95%", "(time_column event_time, lookback 2),"), ("80%", "(time_column event_time),")],
)
def test_sqlmesh_looks_back_from_the_day_before_the_run_and_takes_no_zero(
    orders: Path, target: str, kind: str
) -> None:
    """Tried with SQLMesh 0.236: with a look-back of 7, a run on the 31st reads the 23rd to the 30th."""
    _, first, second = lookback.said(orders, *BOTH, "--target", target, "--for", "sqlmesh").splitlines()
    assert (first, second) == (f"kind INCREMENTAL_BY_TIME_RANGE {kind}", "interval_unit day")


def test_what_a_tool_has_no_unit_for_is_refused(orders: Path) -> None:
    assert lookback.refused(orders, *BOTH, "--every", "30m", "--for", "dbt").endswith(
        "dbt has no unit of '30m', only hour, day"
    )


# -- sources ---------------------------------------------------------------------------------------------------------


def test_every_kind_of_source_gives_the_same_answer(orders: Path, tmp_path: Path) -> None:
    rows = pq.read_table(orders)
    texts = [[str(value) for value in column.to_pylist()] for column in rows.columns]
    pacsv.write_csv(rows.slice(0, 9_000), tmp_path / "a.csv")
    pacsv.write_csv(rows.slice(9_000), tmp_path / "b.csv")
    lines = (json.dumps(dict(zip(rows.column_names, row, strict=True))) for row in zip(*texts, strict=True))
    (tmp_path / "rows.json").write_text("\n".join(lines), encoding="utf-8")
    database = sqlite3.connect(tmp_path / "rows.db")
    database.execute("create table orders (event_time text, loaded_at text)")
    database.executemany("insert into orders values (?, ?)", zip(*texts, strict=True))
    database.commit()
    database.close()
    url = f"sqlite:///{tmp_path / 'rows.db'}"

    readings = document(orders)["readings"]
    for source in (
        (tmp_path / "a.csv", tmp_path / "b.csv"),
        (tmp_path / "rows.json",),
        (url, "--table", "orders"),
        (url, "--table", "main.orders"),
        (url, "--table", "select * from orders where event_time > '1999'"),
    ):
        assert document(*source)["readings"] == readings
    for stdin, options in (
        ((tmp_path / "rows.json"), ["--format", "json"]),
        (orders, ["--format", "parquet"]),
    ):
        piped = CliRunner().invoke(
            app, ["lookback", "-", *BOTH, *options, "-o", "json"], input=stdin.read_bytes()
        )
        assert json.loads(piped.stdout)["readings"] == readings


@pytest.mark.parametrize(("folder", "package"), [("_delta_log", "deltalake"), ("metadata", "pyiceberg")])
def test_a_table_of_files_is_never_read_as_files_without_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, package: str
) -> None:
    """Files of rows that were deleted lie there, too."""
    (tmp_path / folder).mkdir()
    pq.write_table(table(), tmp_path / "part.parquet")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.table", None)
    assert f"such a table needs {package}: pip install {package}" in lookback.refused(tmp_path, *BOTH)


def test_a_delta_table_is_read_through_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: Path
) -> None:
    """The package is no part of an environment for tests; with the real one, 1.6, it was tried by hand."""
    (tmp_path / "_delta_log").mkdir()
    dataset = pads.dataset(orders)
    module = SimpleNamespace(DeltaTable=lambda _: SimpleNamespace(to_pyarrow_dataset=lambda: dataset))
    monkeypatch.setitem(sys.modules, "deltalake", module)
    assert document(tmp_path)["readings"] == document(orders)["readings"]


def test_the_newest_metadata_of_an_iceberg_table_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: Path
) -> None:
    """As above, with the real one, 0.12."""
    (tmp_path / "metadata").mkdir()
    for name in ("v9.metadata.json", "v10.metadata.json", "snap-99.avro"):
        (tmp_path / "metadata" / name).touch()
    read: list[str] = []
    rows = pq.read_table(orders)

    def from_metadata(place: str) -> Any:
        read.append(Path(place).name)
        fields = [SimpleNamespace(name=name) for name in rows.column_names]
        return SimpleNamespace(
            schema=lambda: SimpleNamespace(fields=fields),
            scan=lambda selected_fields: SimpleNamespace(
                to_arrow_batch_reader=lambda: rows.select(selected_fields).to_batches()
            ),
        )

    module = SimpleNamespace(StaticTable=SimpleNamespace(from_metadata=from_metadata))
    monkeypatch.setitem(sys.modules, "pyiceberg.table", module)
    assert document(tmp_path)["readings"] == document(orders)["readings"]
    assert read == ["v10.metadata.json"]


def test_times_with_any_offset_are_cut_in_utc(orders: Path, tmp_path: Path) -> None:
    event, loaded = times()
    berlin = timezone(timedelta(hours=2))
    lines = ["event_time,loaded_at"]
    for each, then in zip(event.tolist(), loaded.tolist(), strict=True):
        local = datetime.fromtimestamp(each / SECOND, UTC).astimezone(berlin)
        lines.append(f"{local.isoformat()},{datetime.fromtimestamp(then / SECOND, UTC).isoformat()}")
    (tmp_path / "offsets.csv").write_text("\n".join(lines), encoding="utf-8")
    assert document(tmp_path / "offsets.csv")["readings"] == document(orders)["readings"]


def test_times_without_a_zone_are_taken_as_utc_and_that_is_said(orders: Path, tmp_path: Path) -> None:
    pq.write_table(table(zone=None), tmp_path / "naive.parquet")
    found = document(tmp_path / "naive.parquet")
    assert found["readings"] == document(orders)["readings"]
    assert [note.split(" has")[0] for note in found["notes"]] == ["note: 'event_time'", "note: 'loaded_at'"]


# -- bad input -------------------------------------------------------------------------------------------------------


def save(path: Path, event_us: Any, loaded_us: Any) -> Path:
    kind = pa.timestamp("us", "UTC")
    pq.write_table(
        pa.table({"event_time": pa.array(event_us, kind), "loaded_at": pa.array(loaded_us, kind)}), path
    )
    return path


def test_rows_loaded_before_their_time_are_refused_with_both_columns_and_what_to_do(tmp_path: Path) -> None:
    event, loaded = times()
    ahead = save(tmp_path / "ahead.parquet", event + 7_200 * SECOND, event + 5 * SECOND)
    line = lookback.refused(ahead, *BOTH)
    assert "24,000 rows, 100.00 %: 'loaded_at' is before 'event_time', by 1 h 59 min in the mean" in line
    assert line.endswith(
        "are the columns exchanged, or is one in another time zone? Periods are cut in UTC, by dbt and "
        "SQLMesh too: make it UTC in the table or in a view"
    )

    event[:50] += 30 * DAY
    few = save(tmp_path / "few.parquet", event, loaded)
    assert document(few, "--target", "95%")["notes"][0].startswith(
        "note: 50 rows, 0.21 %: 'loaded_at' is before"
    )


def test_a_null_is_refused_with_its_column_or_left_out(tmp_path: Path) -> None:
    event, loaded = times()
    holes = save(tmp_path / "holes.parquet", event, [None, None, *loaded[2:].tolist()])
    assert lookback.refused(holes, *BOTH).endswith(
        "column 'loaded_at' is null in 2 rows: --skip-nulls leaves such rows out"
    )
    assert document(holes, "--skip-nulls")["notes"] == ["left out: column 'loaded_at' is null in 2 rows"]


def test_dates_of_loads_are_no_times_of_loads(tmp_path: Path) -> None:
    """What is loaded in the course of a day is not there for a run at its beginning."""
    event, loaded = times()
    days = save(tmp_path / "days.parquet", event, -(-loaded // DAY) * DAY)
    note = "note: all of 'loaded_at' are midnights; if these are the days of loads, add 1"
    assert document(days, "--target", "95%")["notes"] == [note]


def test_one_period_tells_nothing(tmp_path: Path) -> None:
    event, _ = times(days=1)
    line = lookback.refused(save(tmp_path / "day.parquet", event, event + SECOND), *BOTH)
    assert (
        "400 rows of 1 period of 1d by 'event_time', loaded in 1 by 'loaded_at': fewer than two began "
        in line
    )
    assert line.endswith("take rows of a longer time, or a shorter --every unless 'event_time' is a date")


def test_a_table_that_was_loaded_at_once_says_nothing_of_delays(tmp_path: Path) -> None:
    event, _ = times()
    copied = save(tmp_path / "copied.parquet", event, np.full_like(event, event[-1] + DAY))
    assert lookback.refused(copied, *BOTH).endswith(
        "a full refresh or a copy sets 'loaded_at' anew: take one that has when rows first came"
    )


@pytest.mark.parametrize("output", ["-o table", "-o json", "--for dbt", "--for sqlmesh"])
def test_what_the_rows_do_not_tell_is_not_known(tmp_path: Path, output: str) -> None:
    event, loaded = times(rows_a_day=4)
    few = save(tmp_path / "few.parquet", event, loaded)
    result = lookback.run(few, *BOTH, "--target", "99.9%", *output.split())
    assert result.exit_code == 1
    assert "the look-back is not known: not enough evidence: " in result.stderr
    if output == "-o json":
        assert json.loads(result.stdout)["look_back"] is None
    if "--for" in output:
        assert result.stdout == ""


def test_a_table_alone_may_count(tmp_path: Path) -> None:
    event, loaded = times(rows_a_day=4)
    few = save(tmp_path / "few.parquet", event, loaded)
    assert document(few, "--target", "95%", "--confidence", "none")["look_back"] == 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["t.parquet", "--every", "1s"],
            "--every must be at least a minute, and --at at least 0 and shorter than it",
        ),
        (
            ["t.parquet", "--at", "1d"],
            "--every must be at least a minute, and --at at least 0 and shorter than it",
        ),
        (["t.parquet", "--for", "dbt", "--json"], "--for dbt goes without -o json"),
        (["nothing.parquet"], "nothing.parquet: there is no such file or folder"),
        (["sqlite:///x.db"], "--table names the table of a database, or a query: with a URL, and only there"),
        (
            ["t.parquet", "--table", "t"],
            "--table names the table of a database, or a query: with a URL, and only there",
        ),
        (["t.parquet", "-"], "a table, a database and standard input are read by themselves"),
        (
            ["sqlite:///:memory:", "--table", "t"],
            "sqlite:///%3Amemory%3A: (sqlite3.OperationalError) no such table: t",
        ),
        (
            ["nosuch://u:secret@h/d", "--table", "t"],
            "nosuch://u:***@h/d: its driver is not installed: Can't load plugin: sqlalchemy.dialects:nosuch",
        ),
        (["t.parquet", "--loaded-at", "came"], "there is no column 'came'; there are: event_time, loaded_at"),
        (
            ["t.parquet", "--loaded-at", "event_time"],
            "--event-time and --loaded-at are the same column, 'event_time'",
        ),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(), "t.parquet")
    assert lookback.refused(*BOTH, *arguments).endswith(line)


# -- the page --------------------------------------------------------------------------------------------------------


def test_the_command_of_the_page_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pq.read_table(orders), "orders.parquet")
    (shown,) = (
        block for _, block in code_blocks(PAGE.read_text(encoding="utf-8")) if "$ tidemark lookback" in block
    )
    command, _, printed = shown.removeprefix("$ tidemark ").partition("\n")
    parts = map(re.escape, re.split(r"^\.\.\.\n", printed, flags=re.MULTILINE))
    assert re.fullmatch("(?s:.*?)".join(parts), CliRunner().invoke(app, command.split()).stdout)


def test_the_figure_of_the_page_is_what_the_command_says() -> None:
    assert FIGURE.read_text(encoding="utf-8") == lookback_figure()
