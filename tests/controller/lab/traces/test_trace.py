"""``tidemark trace`` from every kind of file, and that bad input ends in one line, code 2 and no output."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemark.controller.lab.traces.format import read_trace
from tidemark.models.base.text import plural

from support.laboratory import trace, trace_refused

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NOON_US = 1_714_564_800_000_000
ROWS = [
    {"ts": "2024-05-01T12:00:02Z", "seen": "2024-05-01T12:00:03Z", "device": "a"},
    {"ts": "2024-05-01T12:00:00Z", "seen": "2024-05-01T12:00:01Z", "device": "b"},
    {"ts": "2024-05-01T12:00:01Z", "seen": "2024-05-01T12:00:03Z", "device": "a"},
]
"""Out of order by arrival: the second comes first, the third is out of order by event time."""
BY_ARRIVAL = [(0, 1, "b"), (2, 3, "a"), (1, 3, "a")]
"""The same as (event, arrival) in seconds after noon and device, in order of arrival."""
NAMED = ("--event-time", "ts", "--arrival", "seen", "--partition", "device")


def made(output: Path, *arguments: str | Path) -> str:
    return trace.said(*arguments, "-o", output)


def rows_of(path: Path) -> list[tuple[float, float, str]]:
    """Return (event, arrival) in seconds after noon and the partition of each row."""
    read = read_trace(path)
    names = [read.partitions[index] for index in read.partition]
    times = zip(read.event_time_us.tolist(), read.arrival_time_us.tolist(), names, strict=True)
    return [((event - NOON_US) / 1e6, (arrival - NOON_US) / 1e6, name) for event, arrival, name in times]


def write_json(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


# -- formats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "name"),
    [(write_json, "a.json"), (write_json, "a.jsonl"), (write_csv, "a.csv"), (write_parquet, "a.parquet")],
)
def test_each_format_gives_the_rows_by_arrival(output: Path, tmp_path: Path, write: Any, name: str) -> None:
    """Rows that arrived together keep their order in the file."""
    made(output, write(tmp_path / name, ROWS), *NAMED)
    assert rows_of(output) == BY_ARRIVAL


def test_rows_that_arrived_together_keep_their_order_however_many(output: Path, tmp_path: Path) -> None:
    """A batch upload gives a thousand rows one arrival; reordered they would be out of order by event time."""
    rows = [{"t": second, "seen": 20_000 if second < 500 else 10_000} for second in range(1_000)]
    path = write_parquet(tmp_path / "a.parquet", rows)
    made(output, path, "--event-time", "t", "--arrival", "seen", "--unit", "s")
    assert read_trace(output).event_time_us.tolist() == [
        second * 10**6 for second in (*range(500, 1_000), *range(500))
    ]


def test_a_format_that_the_name_does_not_show_can_be_given(output: Path, tmp_path: Path) -> None:
    """Logs have all sorts of names."""
    path = write_json(tmp_path / "app.log", ROWS)
    assert "app.log: the name does not show the format; give --format" in trace_refused(output, path, *NAMED)
    made(output, path, *NAMED, "--format", "json")
    assert rows_of(output) == BY_ARRIVAL


def test_compressed_json_and_csv_are_read(output: Path, tmp_path: Path) -> None:
    """As log shippers leave them."""
    for write, name in ((write_json, "a.json"), (write_csv, "a.csv")):
        plain = write(tmp_path / name, ROWS)
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(plain.read_bytes()))
        made(output, packed, *NAMED)
        assert rows_of(output) == BY_ARRIVAL


def test_several_files_and_folders_make_one_trace(output: Path, tmp_path: Path) -> None:
    """Folders are searched; what a writer left beside the data is not data."""
    folder = tmp_path / "day=1" / "hour=2"
    folder.mkdir(parents=True)
    write_json(folder / "a.json", ROWS[:1])
    write_csv(folder / "b.csv", ROWS[1:2])
    for name in ("_SUCCESS", "_temporary.json", ".b.csv", "notes.txt"):
        (folder / name).write_text("not data")
    made(output, tmp_path / "day=1", write_parquet(tmp_path / "c.parquet", ROWS[2:]), *NAMED)
    assert rows_of(output) == BY_ARRIVAL


def test_the_file_can_stand_in_for_partition_and_arrival(output: Path, tmp_path: Path) -> None:
    """Devices upload files: the file's time is when its rows came, and its name is whose they are."""
    late, early = write_json(tmp_path / "late.json", ROWS[:2]), write_json(tmp_path / "early.json", ROWS[2:])
    for path, second in ((late, 60), (early, 30)):
        at = (NOON + timedelta(seconds=second)).timestamp()
        os.utime(path, (at, at))
    made(output, late, early, "--event-time", "ts", "--arrival-from-file-time")
    assert rows_of(output) == [(1, 30, "early.json"), (2, 60, "late.json"), (0, 60, "late.json")]


# -- times ---------------------------------------------------------------------------------------------------

ZONED = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "after_noon"),
    [
        ("2024-05-01T12:00:01.5Z", 1.5),
        ("2024-05-01 12:00:01.123456Z", 1.123456),
        ("2024-05-01T12:00:01.123456789Z", 1.123456),
        ("2024-05-01T14:00:00+02:00", 0),
        ("2024-05-01T14:00:00+0200", 0),
        ("2024-05-01T07:00:00-05", 0),
        ("2024-05-01T12:00Z", 0),
    ],
)
def test_iso_strings_are_read_to_the_microsecond(
    output: Path, tmp_path: Path, value: str, after_noon: float
) -> None:
    """With any offset; what is finer is cut off."""
    for path in (
        write_json(tmp_path / "a.json", [{"t": value}]),
        write_csv(tmp_path / "a.csv", [{"t": value}]),
    ):
        assert "UTC" not in made(output, path, "--event-time", "t", "--arrival", "t")
        assert rows_of(output)[0][:2] == (after_noon, after_noon)


@pytest.mark.parametrize(
    ("value", "after_noon"),
    [("2024-05-01T12:00:01", 1), ("2024-05-01 12:00:01.25", 1.25), ("2024-05-01", -43_200)],
)
def test_a_time_without_a_zone_is_taken_as_utc_and_that_is_said(
    output: Path, tmp_path: Path, value: str, after_noon: float
) -> None:
    """Whoever meant local time must hear of it."""
    said = made(
        output, write_json(tmp_path / "a.json", [{"t": value}]), "--event-time", "t", "--arrival", "t"
    )
    assert "note: 't' has times without a zone; they were taken as UTC" in said
    assert rows_of(output)[0][0] == after_noon


@pytest.mark.parametrize(
    ("column", "says_utc"),
    [
        (pa.array([NOON], pa.timestamp("us", "UTC")), False),
        (pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")), False),
        (pa.array([NOON], pa.timestamp("ns", "UTC")), False),
        (pa.array([NOON], pa.timestamp("s", "UTC")), False),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")), True),
        (pa.array([NOON.isoformat()]).dictionary_encode(), False),
    ],
)
def test_timestamps_of_every_unit_are_read(
    output: Path, tmp_path: Path, column: pa.Array, says_utc: bool
) -> None:
    """A stored zone is how it is shown, not what it is."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": column}), path)
    assert ("UTC" in made(output, path, "--event-time", "t", "--arrival", "t")) == says_utc
    assert rows_of(output)[0][0] == 0


def test_dates_are_midnights(output: Path, tmp_path: Path) -> None:
    """Reporting by day."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [date(2024, 5, 1)]}), path)
    made(output, path, "--event-time", "t", "--arrival", "t")
    assert rows_of(output)[0][0] == -43_200


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("s", NOON_US // 10**6),
        ("ms", NOON_US // 10**3),
        ("us", NOON_US),
        ("ns", NOON_US * 1_000 + 999),
        ("s", NOON_US / 1e6),
        ("ms", Decimal(NOON_US) / 1_000),
    ],
)
def test_numbers_are_times_in_the_unit_that_is_said(
    output: Path, tmp_path: Path, unit: str, value: Any
) -> None:
    """In a typed file, and as text in CSV."""
    typed, text = (
        write_parquet(tmp_path / "a.parquet", [{"t": value}]),
        write_csv(tmp_path / "a.csv", [{"t": value}]),
    )
    for path in (typed, text):
        made(output, path, "--event-time", "t", "--arrival", "t", "--unit", unit)
        assert rows_of(output)[0][0] == 0


def test_seconds_with_a_fraction_are_rounded_to_the_microsecond(output: Path, tmp_path: Path) -> None:
    """0.001009 s is 1008.9999999999999 us in binary; cut off it would be 1008."""
    path = tmp_path / "a.json"
    path.write_text('{"t": 0.001009}\n{"t": 1714564800.123456}\n')
    made(output, path, "--event-time", "t", "--arrival", "t", "--unit", "s")
    assert read_trace(output).event_time_us.tolist() == [1_009, NOON_US + 123_456]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.json"])
def test_numbers_without_a_unit_are_rejected(output: Path, tmp_path: Path, name: str) -> None:
    """A guessed unit makes delays of fifty years."""
    write = {"a.parquet": write_parquet, "a.csv": write_csv, "a.json": write_json}[name]
    line = trace_refused(output, write(tmp_path / name, [{"t": 5}]), "--event-time", "t", "--arrival", "t")
    assert line.endswith("column 't' holds numbers: give their unit with --unit s, ms, us or ns")


def test_a_unit_that_cannot_be_right_is_rejected(output: Path, tmp_path: Path) -> None:
    """Nanoseconds read as seconds are in a year with eleven digits."""
    path = write_parquet(tmp_path / "a.parquet", [{"t": NOON_US * 1_000}])
    line = trace_refused(output, path, "--event-time", "t", "--arrival", "t", "--unit", "s")
    assert "which is not a time in s: is the unit right?" in line


# -- what is said --------------------------------------------------------------------------------------------


def test_the_table_says_what_was_found(output: Path, tmp_path: Path) -> None:
    """100 rows, one a second, delay of 0 to 9.9 s, all but the tens in order."""
    rows = [
        {
            "ts": (NOON + timedelta(seconds=n - (5 if n % 10 == 9 else 0))).isoformat(),
            "seen": (NOON + timedelta(seconds=n)).isoformat(),
            "device": str(n % 4),
        }
        for n in range(100)
    ]
    said = made(output, write_json(tmp_path / "a.json", rows), *NAMED)
    facts = (re.split(r"  +", line) for line in said.splitlines()[1:])
    assert dict(fact for fact in facts if len(fact) == 2) == {
        "rows": "100",
        "partitions": "4",
        "span of arrivals": "99 s",
        "span of event times": "98 s",
        "out of order": "10.00 %",
        "delay p50": "0 s",
        "delay p90": "0 s",
        "delay p99": "5 s",
        "delay max": "5 s",
    }


def test_rows_that_arrived_before_their_event_are_counted_aloud(output: Path, tmp_path: Path) -> None:
    """They stay in the trace, because a need is signed; but a clock is wrong."""
    rows = [{"ts": "2024-05-01T12:00:02Z", "seen": "2024-05-01T12:00:01Z", "device": "a"}, *ROWS]
    said = made(output, write_json(tmp_path / "a.json", rows), *NAMED)
    assert "note: 1 row arrived before the event: two clocks disagree" in said
    assert len(rows_of(output)) == 4


@pytest.mark.parametrize("column", ["ts", "seen", "device"])
@pytest.mark.parametrize("write", [write_json, write_parquet])
def test_nulls_are_rejected_or_left_out_and_counted(
    output: Path, tmp_path: Path, column: str, write: Any
) -> None:
    """A silent filter would make the stream look better than it is."""
    path = write(
        tmp_path / ("a.json" if write is write_json else "a.parquet"), [*ROWS, {**ROWS[0], column: None}]
    )
    line = trace_refused(output, path, *NAMED)
    assert (
        line
        == "tidemark: 1 row without an event time, an arrival or a partition; --skip-nulls leaves such rows out"
    )
    assert "left out: 1 row with a null" in made(output, path, *NAMED, "--skip-nulls")
    assert rows_of(output) == BY_ARRIVAL


def test_empty_cells_and_missing_keys_and_nan_are_nulls(output: Path, tmp_path: Path) -> None:
    """Each format has its own way to say nothing."""
    csv = tmp_path / "a.csv"
    csv.write_text("t,x\n1,\n,1\n2,\n")
    jsons = tmp_path / "b.json"
    jsons.write_text('{"t": 1}\n\n{"x": 5}\n{"t": NaN}\n')
    for path, count in ((csv, 1), (jsons, 2)):
        assert f"{plural(count, 'row')} without an event time" in trace_refused(
            output, path, "--event-time", "t", "--arrival", "t", "--unit", "s"
        )


@pytest.mark.parametrize(
    "name", ["NA", "N/A", "null", "NULL", "nan", "NaN", "None", "#N/A", "n/a", "-nan", " "]
)
def test_only_an_empty_field_of_csv_names_no_partition(output: Path, tmp_path: Path, name: str) -> None:
    """NA is Namibia: with --skip-nulls all of its rows vanished, and with them how late they are."""
    csv = tmp_path / "a.csv"
    csv.write_text(f"t,region\n1,{name}\n2,\n3,DE\n")
    options = ("--event-time", "t", "--arrival", "t", "--partition", "region", "--unit", "s")
    assert "1 row without an event time, an arrival or a partition" in trace_refused(output, csv, *options)
    assert "left out: 1 row with a null" in made(output, csv, *options, "--skip-nulls")
    assert read_trace(output).partitions == (name, "DE")


def test_a_time_of_csv_that_is_spelled_as_missing_is_null(output: Path, tmp_path: Path) -> None:
    """As pandas writes it; no time has such a name."""
    csv = tmp_path / "a.csv"
    csv.write_text("t,seen\n1,1\nNaN,2\n3,NULL\n")
    options = ("--event-time", "t", "--arrival", "seen", "--unit", "s", "--skip-nulls")
    assert "left out: 2 rows with a null" in made(output, csv, *options)


@pytest.mark.parametrize(
    ("write", "name"), [(write_json, "a.json"), (write_csv, "a.csv"), (write_parquet, "a.parquet")]
)
def test_a_column_is_found_whatever_its_case_as_in_spark(
    output: Path, tmp_path: Path, write: Any, name: str
) -> None:
    path = write(
        tmp_path / name, [{"TS": row["ts"], "Seen": row["seen"], "Device": row["device"]} for row in ROWS]
    )
    made(output, path, *NAMED)
    assert rows_of(output) == BY_ARRIVAL


def test_json_with_a_byte_order_mark_is_read(output: Path, tmp_path: Path) -> None:
    """As PowerShell writes it."""
    path = write_json(tmp_path / "a.json", ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    made(output, path, *NAMED)
    assert rows_of(output) == BY_ARRIVAL


# -- misdated rows -------------------------------------------------------------------------------------------


def test_rows_in_a_unit_of_their_own_are_counted_aloud(output: Path, tmp_path: Path) -> None:
    """They stay in the trace: it says what came."""
    rows = [
        {"t": NOON_US // 10**6, "seen": NOON_US, "device": "a"},
        {"t": NOON_US, "seen": NOON_US, "device": "b"},
    ]
    said = made(
        output,
        write_json(tmp_path / "a.json", rows),
        *("--event-time", "t", "--arrival", "seen", "--partition", "device", "--unit", "us"),
    )
    assert (
        "note: 1 row of partition 'a', 50.00 % of all, is dated 1970-01-01: seconds read as microseconds? "
        "No bound is meant for them" in said
    )
    assert len(read_trace(output)) == 2


def test_a_trace_in_seconds_that_was_read_as_milliseconds_is_noted(output: Path, tmp_path: Path) -> None:
    """Event times and arrivals alike: nothing is late among them, and every delay is 1,000 times too short."""
    now_s = round(datetime.now(UTC).timestamp())
    rows = [{"t": now_s - 10 * number, "seen": now_s - 9 * number} for number in range(9, 0, -1)]
    options = ("--event-time", "t", "--arrival", "seen")
    path = write_json(tmp_path / "a.json", rows)
    said = made(output, path, *options, "--unit", "ms")
    assert "note: arrivals are dated 1970-01-2" in said
    assert "seconds read as milliseconds? Then all delays here are too short by the same factor" in said
    assert "1970" not in made(output, path, *options, "--unit", "s")


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "name"), [(write_json, "a.json"), (write_csv, "a.csv"), (write_parquet, "a.parquet")]
)
def test_a_missing_column_is_named_with_those_that_are_there(
    output: Path, tmp_path: Path, write: Any, name: str
) -> None:
    """For each of the three columns that can be asked for."""
    path = write(tmp_path / name, ROWS)
    for option in ("--event-time", "--arrival", "--partition"):
        line = trace_refused(output, path, *NAMED, option, "nope")
        assert line == f"tidemark: {path}: there is no column 'nope'; there are: ts, seen, device"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"ts": "2024-05-01T12:00:00Z"}\n{"ts": \n',
            ": this is not JSON; each line must be one JSON object",
        ),
        ("[1, 2]\n", "line 1 is not a JSON object"),
        ('{"ts": 1}\n' + "[" * 200_000 + "\n", "line 2 is nested too deeply to be read"),
        (
            '{"ts": "2024-05-01T12:00:00Z"}\n{"ts": "yesterday"}\n',
            "column 'ts': 'yesterday' at row 1 is not a time",
        ),
        ('{"ts": "2024-13-01T12:00:00Z"}\n', "column 'ts'"),
        ('{"ts": "2024-05-01T12:00:00Z"}\n{"ts": 5}\n', "column 'ts' holds values of several types"),
        ('{"ts": true}\n', "column 'ts' is of type bool, which is not a time"),
        ('{"ts": Infinity}\n', "column 'ts' holds more than 1,000,000,000,000,000,000"),
        ("\xff\xfe", "not a readable JSON file|this is not JSON"),
        ("", "there are no rows"),
    ],
)
def test_json_that_cannot_be_used_is_rejected_where_it_is_wrong(
    output: Path, tmp_path: Path, text: str, said: str
) -> None:
    """By line or by row."""
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    unit = ("--unit", "s") if "Infinity" in text else ()
    line = trace_refused(output, path, "--event-time", "ts", "--arrival", "ts", *unit)
    assert any(part in line for part in said.split("|"))


@pytest.mark.parametrize("text", ["", "a,b\n1\n", "\x00\x01"])
def test_csv_that_cannot_be_used_is_rejected(output: Path, tmp_path: Path, text: str) -> None:
    """In one line."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert str(path) in trace_refused(output, path, "--event-time", "a", "--arrival", "a", "--unit", "s")


def test_two_columns_of_one_name_are_rejected(output: Path, tmp_path: Path) -> None:
    """In CSV the first was taken in silence."""
    csv, parquet = tmp_path / "a.csv", tmp_path / "b.parquet"
    csv.write_text("ts,seen,device,ts\n1,1,a,9\n")
    table = pa.Table.from_arrays(
        [pa.array([1]), pa.array([1]), pa.array(["a"]), pa.array([9])], [*ROWS[0], "ts"]
    )
    pq.write_table(table, parquet)
    for path in (csv, parquet):
        line = trace_refused(output, path, *NAMED, "--unit", "s")
        assert line == f"tidemark: {path}: 2 columns are named 'ts': rename all but one"
        made(output, path, "--event-time", "seen", "--arrival", "seen", "--unit", "s")
        output.unlink()


def test_two_columns_that_differ_in_case_must_be_named_exactly(output: Path, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [{**row, "Device": "other"} for row in ROWS])
    line = trace_refused(output, path, *NAMED[:-1], "DEVICE")
    assert line == f"tidemark: {path}: 2 columns are named 'device' and 'Device': rename all but one"
    made(output, path, *NAMED)
    assert rows_of(output) == BY_ARRIVAL


def test_parquet_that_is_not_valid_is_rejected(output: Path, tmp_path: Path) -> None:
    """In one line."""
    path = tmp_path / "a.parquet"
    path.write_text("no")
    assert f"{path}: not a readable Parquet file" in trace_refused(output, path, *NAMED)


def test_sources_that_are_not_there_or_empty_are_rejected(output: Path, tmp_path: Path) -> None:
    """The likeliest slips."""
    assert "nowhere: there is no such file or folder" in trace_refused(output, tmp_path / "nowhere", *NAMED)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "empty: there is no Parquet, JSON or CSV file in the folder" in trace_refused(
        output, empty, *NAMED
    )


def test_the_arrival_must_come_from_one_place(output: Path, tmp_path: Path) -> None:
    """Neither guessed nor given twice."""
    path = write_json(tmp_path / "a.json", ROWS)
    for arguments in ((), ("--arrival", "seen", "--arrival-from-file-time")):
        line = trace_refused(output, path, "--event-time", "ts", *arguments)
        assert "either --arrival COLUMN or --arrival-from-file-time" in line


def test_the_output_cannot_be_one_of_the_sources(tmp_path: Path) -> None:
    """It would replace what it was made from."""
    path = write_parquet(tmp_path / "a.parquet", ROWS)
    before = path.read_bytes()
    result = trace.run(path, *NAMED, "-o", path)
    assert (result.exit_code, path.read_bytes()) == (2, before)
    assert "the output is one of the sources" in result.stderr


def test_an_output_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    """Its folder is not there."""
    result = trace.run(write_json(tmp_path / "a.json", ROWS), *NAMED, "-o", tmp_path / "no" / "where.parquet")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "where.parquet: cannot be written" in result.stderr
