"""What jobs send: once, whole or not at all."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tidemark.controller.db.tables import Base, LedgerKeyRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.evidence.needs import Span, needs_in
from tidemark.controller.intake.canonical_json import canonical_json
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.ledger import Tally
from tidemark.models.operators import row_level, session, sliding, tumbling
from tidemark.models.wire import Acknowledgement, Report, to_json_object

from support.controller_app import STREAM, Controller
from support.oracles import Ledger
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND, report_of

REPORTS = query_reports(exponential_batches(6, 40))
ACK = Acknowledgement(
    query_id="query",
    run_id="run",
    bound_ms=7_000,
    generation=None,
    source="job",
    mode="Off",
    applied_us=START_US,
)


@given(
    st.text(max_size=30),
    st.lists(st.tuples(st.text(max_size=10), st.integers(-(10**15), 10**15)), max_size=12),
    st.sampled_from([None, 4]),
)
def test_the_canonical_text_of_a_report_is_sorted_json_without_spaces_on_which_its_fingerprint_rests(
    job: str, rows: list[tuple[str, int]], final_ms: int | None
) -> None:
    """It is stored and compared for as long as reports are kept: no release may write it otherwise."""
    report = replace(report_of(rows, row_level(), late_watermark_ms=5, final_watermark_ms=final_ms), job=job)
    plain = json.dumps(to_json_object(report), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_json(report) == plain.encode()


def ledger_of(controller: Controller) -> dict[int, Tally]:
    with controller.service.database.read() as session:
        rows = session.scalars(select(LedgerKeyRow).order_by(LedgerKeyRow.key_us))
        return {row.key_us: Tally(row.rows, row.late_min, row.late_max) for row in rows}


def needs_of(controller: Controller) -> bytes:
    with controller.service.database.read() as session:
        stream = session.scalars(select(StreamRow)).one()
        horizon = horizon_of(session, stream.id, 86_400_000)
        assert horizon is not None
        return needs_in(session, Span(stream.id, horizon.from_us)).to_bytes()


def everything(controller: Controller) -> dict[str, list[Any]]:
    with controller.service.database.read() as session:
        return {
            table.name: [tuple(row) for row in session.execute(select(table))]
            for table in Base.metadata.sorted_tables
            # Replicas record heartbeats all the time.
            if table.name != "replicas"
        }


@contextmanager
def fresh() -> Iterator[Controller]:
    """A controller for one example of a property test, which fixtures would share."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Controller(f"sqlite:///{Path(folder) / 't.db'}") as controller,
    ):
        yield controller


# -- idempotence ---------------------------------------------------------------------------------------------------


def test_the_first_report_is_201_and_registers_the_stream_in_mode_off(controller: Controller) -> None:
    answer = controller.report(REPORTS[0])
    assert answer.status_code == 201
    assert answer.json() == {
        "job": "job",
        "stream": "stream",
        "received_us": controller.clock(),
        "duplicate": False,
    }
    status = controller.status()
    assert (status["mode"], status["registered_us"]) == ("Off", controller.clock())


def test_a_duplicate_is_200_with_the_same_body_shape_and_changes_nothing_but_the_count(
    controller: Controller,
) -> None:
    first = controller.report(REPORTS[0]).json()
    before = everything(controller)
    controller.clock.now_us += SECOND
    again = controller.report(REPORTS[0])
    assert again.status_code == 200
    assert again.json() == {**first, "duplicate": True}
    after = everything(controller)
    assert {name for name in after if after[name] != before[name]} == {"streams"}


def test_a_duplicate_with_other_content_is_409_and_the_first_stays(controller: Controller) -> None:
    controller.report(REPORTS[2])
    before = everything(controller)
    answer = controller.report(replace(REPORTS[2], state_rows=99))
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:tidemark:problem:report-conflict"
    assert everything(controller) == before


def test_key_order_and_whitespace_do_not_make_another_content(controller: Controller) -> None:
    controller.report(REPORTS[0])
    shuffled = dict(reversed(to_json_object(REPORTS[0]).items()))
    assert controller.send("/reports", json.dumps(shuffled, indent=3).encode()).status_code == 200


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from([tumbling("10 seconds"), sliding("10 seconds", "5 seconds")]),
)
def test_ledger_and_needs_are_the_same_whatever_the_order_and_the_repeats(
    rng: random.Random, operator: Any
) -> None:
    # Two runs of one query: the second cannot know the base of the first, so needs hang on the store.
    reports = query_reports(exponential_batches(8, 12, seed=rng.randrange(5)), operator)
    reports = [
        *reports[:4],
        *(replace(report, run_id="second", late_base_ms=None) for report in reports[4:6]),
        *(replace(report, run_id="second") for report in reports[6:]),
    ]
    expected = Ledger()
    for report in reports:
        expected.add(report)
    sent = [*reports, *rng.choices(reports, k=4)]
    rng.shuffle(sent)
    with fresh() as shuffled, fresh() as ordered:
        for report in sent:
            assert shuffled.report(report).status_code in {200, 201}
        ordered.report_all(reports)
        assert ledger_of(shuffled) == ledger_of(ordered) == expected.by_key()
        assert needs_of(shuffled) == needs_of(ordered)
        for name in ("evidence", "coverage", "completeness", "effective_bound_ms"):
            assert shuffled.status()[name] == ordered.status()[name]


@pytest.mark.parametrize("operator", [row_level(), session("5 seconds")], ids=["row", "session"])
def test_keys_that_are_no_windows_are_kept_by_the_minute_and_no_row_is_lost(
    controller: Controller, operator: Any
) -> None:
    reports = query_reports(exponential_batches(6, 40), operator)
    controller.report_all(reports)
    expected = Ledger()
    for report in reports:
        expected.add(report)
    stored = ledger_of(controller)
    assert all(key % 60_000_000 == 0 for key in stored)
    total = expected.completeness()
    assert sum(stored.values(), Tally()) == Tally(total.rows, total.late_min, total.late_max)


def test_the_sums_of_reports_stream_and_ledger_agree(controller: Controller) -> None:
    controller.report_all(REPORTS)
    with controller.service.database.read() as session:
        stream = session.scalars(select(StreamRow)).one()
        reports = session.scalars(select(ReportRow)).all()
    ledger = sum(ledger_of(controller).values(), Tally())
    for name, of_ledger in (("pairs", "rows"), ("late_min", "late_min"), ("late_max", "late_max")):
        sums = {
            getattr(stream, name),
            sum(getattr(row, name) for row in reports),
            getattr(ledger, of_ledger),
        }
        assert len(sums) == 1, name
    assert stream.pairs == 240


def test_an_acknowledgement_is_taken_once_and_before_the_first_report_too(controller: Controller) -> None:
    assert controller.acknowledge(ACK).status_code == 201
    again = controller.acknowledge(ACK)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    status = controller.status()
    assert status["registered_us"] is None
    assert status["applied"] == {
        "bound_ms": 7_000,
        "generation": None,
        "source": "job",
        "query_id": "query",
        "run_id": "run",
        "applied_us": START_US,
        "ceiling_ms": None,
    }


# -- refusals ------------------------------------------------------------------------------------------------------

GOOD = to_json_object(query_reports(exponential_batches(3, 8))[2])
OPTIONAL = {"dropped_reports", "start_us", "future_rows", "append_delay", "live", "contradiction", "reread"}
NULLABLE = {
    "generation",
    "late_watermark_ms",
    "late_base_ms",
    "min_event_time_us",
    "max_event_time_us",
    "append_delay",
    "contradiction",
    "live",
}


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a document, but for the document itself."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def changed(document: Any, path: tuple[str | int, ...], change: Any) -> Any:
    """A copy of ``document`` in which ``change`` was applied to the parent of ``path``."""
    copy = json.loads(json.dumps(document))
    here = copy
    for part in path[:-1]:
        here = here[part]
    change(here, path[-1])
    return copy


PLACES = list(paths(json.loads(json.dumps(GOOD))))
FIELDS = [path for path in PLACES if isinstance(path[-1], str)]
WRONG: list[Any] = [
    1.5,
    1.0,
    True,
    [],
    {},
    "text",
    "7",
    10**30,
    -(10**30),
    float("nan"),
    float("inf"),
    [1],
    {"a": 1},
]


def dropped(path: tuple[str | int, ...]) -> Any:
    return changed(GOOD, path, lambda parent, key: parent.pop(key))


def retyped(path: tuple[str | int, ...], value: Any) -> Any:
    def replace_it(parent: Any, key: Any) -> None:
        parent[key] = value

    return changed(GOOD, path, replace_it)


def pointer(path: tuple[str | int, ...]) -> str:
    return "".join(f"/{part}" for part in path)


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """One controller for all that is refused: it must stay as it is."""
    with Controller(f"sqlite:///{tmp_path_factory.mktemp('refusing') / 't.db'}") as controller:
        controller.report_all(REPORTS[:1])
        yield controller


def refused(controller: Controller, body: Any, *pointers: str) -> None:
    before = everything(controller)
    answer = controller.send("/reports", json.dumps(body).encode())
    found = answer.json()
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert found["errors"], found
    assert any(error["pointer"].startswith(wanted) for error in found["errors"] for wanted in pointers), (
        pointers,
        found["errors"],
    )
    assert everything(controller) == before


@pytest.mark.parametrize("path", [path for path in FIELDS if path[-1] not in OPTIONAL], ids=pointer)
def test_a_report_without_a_field_is_refused_with_the_pointer_to_it(
    refusing: Controller, path: tuple[str | int, ...]
) -> None:
    # What is missing is pointed at itself, but for the tag that says which operator it is.
    refused(refusing, dropped(path), "/operator" if path == ("operator", "kind") else pointer(path))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(WRONG))
def test_a_report_with_anything_of_another_type_is_refused_and_nothing_is_stored(
    refusing: Controller, path: tuple[str | int, ...], value: Any
) -> None:
    fits = isinstance(value, str) and (isinstance(_at(GOOD, path), str) or path == ("contradiction",))
    if fits:
        return  # another text is of the same type
    wanted = {pointer(path), pointer(path[:-1])}
    if path[0] == "counts":
        # A count is a number however huge; what is wrong is that columns do not fit each other or the rows.
        wanted |= {"/counts", "/rows"}
    refused(refusing, retyped(path, value), *wanted)


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        document = document[part]
    return document


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(
        [(), *(path for path in PLACES if isinstance(_at(json.loads(json.dumps(GOOD)), path), dict))]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12),
)
def test_a_report_with_a_field_too_many_is_refused_with_the_pointer_to_it(
    refusing: Controller, path: tuple[str | int, ...], name: str
) -> None:
    if name in _at(GOOD, path):
        return
    body = name.replace("~", "~0").replace("/", "~1")
    refused(refusing, retyped((*path, name), 1), pointer(path) + "/" + body)


@pytest.mark.parametrize("field", sorted(set(GOOD) - NULLABLE))
def test_null_is_refused_where_it_has_no_meaning(refusing: Controller, field: str) -> None:
    refused(refusing, retyped((field,), None), f"/{field}")


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        (("rows",), 3, "/rows"),
        (("null_rows",), 9, "/rows"),
        (("rows",), 2**50, "/rows"),
        (("granule_us",), 3_000_000, "/granule_us"),
        (("closed",), "right", ""),
        (("started_us",), 2**62, "/started_us"),
        (("duration_ms",), 2**62, "/duration_ms"),
        (("watermark_ms",), 2**62, "/watermark_ms"),
        (("bound_ms",), 2**62, "/bound_ms"),
        (("min_event_time_us",), None, "/min_event_time_us"),
        (("min_event_time_us",), START_US * 2, "/min_event_time_us"),
        (("query_id",), "a\nb", "/query_id"),
        (("counts", "partitions", 0), "a\0b", "/counts/partitions/0"),
        (("counts", "partitions", 1), "0", "/counts/partitions"),
        (("counts", "granules", 0), -(2**60), "/counts/granules"),
        (("counts", "granules", 1), 0, "/counts/granules"),
        (("counts", "sizes", 0), 0, "/counts/granules"),
        (("operator", "slide_us"), 20_000_000, "/operator"),
        (("operator",), {"kind": "window", "size_us": 10**12, "slide_us": 1_000, "start_us": 0}, ""),
        (("operator",), {"kind": "window", "size_us": 2**61, "slide_us": 2**61, "start_us": 0}, ""),
        (("job",), "other", "/job"),
        (("stream",), "other", "/stream"),
    ],
    ids=str,
)
def test_a_report_that_contradicts_itself_its_address_or_arithmetic_is_refused(
    refusing: Controller, path: tuple[str | int, ...], value: Any, wanted: str
) -> None:
    refused(refusing, retyped(path, value), wanted)


def test_a_message_of_the_wire_types_points_at_the_field_it_names(refusing: Controller) -> None:
    body = refusing.send("/reports", json.dumps(retyped(("rows",), 3)).encode()).json()
    assert [error["pointer"] for error in body["errors"]] == ["/rows"]
    assert body["errors"][0]["detail"].startswith("rows 3: partitions count 8 rows")


# -- bodies --------------------------------------------------------------------------------------------------------


def test_a_gzip_body_is_read(controller: Controller) -> None:
    body = gzip.compress(json.dumps(to_json_object(REPORTS[0])).encode())
    assert controller.send("/reports", body, content_encoding="gzip").status_code == 201


@pytest.mark.parametrize(
    ("content", "headers", "status", "kind"),
    [
        (b"{", {}, 400, "malformed-body"),
        (b"", {}, 400, "malformed-body"),
        (b"\xff\xfe", {}, 400, "malformed-body"),
        (b"[" * 5_000, {}, 400, "malformed-body"),
        (b"{}", {"content_encoding": "gzip"}, 400, "malformed-body"),
        (gzip.compress(b"{}", mtime=0)[:-4], {"content_encoding": "gzip"}, 400, "malformed-body"),
        (gzip.compress(b"{}", mtime=0) + b"x", {"content_encoding": "gzip"}, 400, "malformed-body"),
        (b"{}", {"content_encoding": "br"}, 415, "unsupported-media-type"),
        (b"{}", {"content_type": "text/plain"}, 415, "unsupported-media-type"),
        (b"{}", {"content_type": "application/json; charset=latin-1"}, 415, "unsupported-media-type"),
        (b" " * 70_000, {}, 413, "body-too-large"),
        (b"[]", {}, 422, "invalid-body"),
        (b"7", {}, 422, "invalid-body"),
        (b"null", {}, 422, "invalid-body"),
    ],
)
@pytest.mark.parametrize("path", ["/reports", "/acks"])
def test_a_body_that_cannot_be_read_has_a_problem_of_its_own(
    database_url: str, path: str, content: bytes, headers: dict[str, str], status: int, kind: str
) -> None:
    with Controller(database_url, max_body_bytes=65_536) as controller:
        answer = controller.send(path, content, **headers)
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:tidemark:problem:{kind}")
        assert answer.headers["content-type"] == "application/problem+json"
        assert controller.http.get("/v1/fleet").json()["streams"] == []


def test_a_decompression_bomb_is_refused_after_the_limits_worth_of_work(database_url: str) -> None:
    bomb = gzip.compress(b" " * 200_000_000)
    with Controller(database_url, max_body_bytes=1_000_000) as controller:
        assert len(bomb) < 1_000_000
        assert controller.send("/reports", bomb, content_encoding="gzip").status_code == 413


def test_a_body_without_a_length_is_cut_off_at_the_limit(database_url: str) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 10_000

    with Controller(database_url, max_body_bytes=65_536) as controller:
        answer = controller.http.post(
            STREAM + "/reports", content=endless(), headers={"content-type": "application/json"}
        )
        assert answer.status_code == 413


# -- needs ---------------------------------------------------------------------------------------------------------


def test_rows_that_met_a_filter_which_knew_nothing_are_early_and_not_unknown(controller: Controller) -> None:
    controller.report_all(REPORTS)
    evidence = controller.status()["evidence"]
    assert (evidence["rows"], evidence["early_rows"], evidence["unknown_rows"]) == (160, 80, 0)
    assert controller.status()["completeness"]["rows"] == 240


@pytest.mark.slow
def test_rows_whose_base_nobody_knows_are_unknown(controller: Controller) -> None:
    # The first report of a restarted job whose earlier batches were never reported: the watermark was in Spark's log.
    report = report_of(
        [("0", START_US)],
        tumbling("10 seconds"),
        late_watermark_ms=START_US // 1_000 - 60_000,
        granule_us=SECOND,
        batch_id=50,
        started_us=START_US,
    )
    controller.report(report)
    status = controller.status()
    assert (status["evidence"]["rows"], status["evidence"]["unknown_rows"]) == (0, 1)
    assert "NeedsUnknown" in {condition["type"] for condition in status["conditions"]}


def test_a_drivers_clock_that_runs_ahead_does_not_hide_later_batches(controller: Controller) -> None:
    ahead = [replace(report, started_us=report.started_us + 10**15) for report in REPORTS[:3]]
    controller.report_all([*ahead, *REPORTS[3:]])
    assert controller.status()["evidence"]["batches"] == 6


def test_of_thousands_of_errors_the_first_of_each_column_or_twenty_are_listed(controller: Controller) -> None:
    """A wrong client makes the same error everywhere: an answer of megabytes would help nobody."""
    good = to_json_object(REPORTS[0])
    columns = {
        **dict.fromkeys(("partitions", "sizes", "future_rows"), [None] * 90_000),
        "granules": ["x"] * 500_000,
        "rows": [1.5] * 500_000,
    }
    answer = controller.http.post(STREAM + "/reports", json=good | {"counts": columns})
    assert answer.status_code == 422
    assert "/counts/partitions/0: Input should be a valid string (and 4 more)" in answer.json()["detail"]
    unknown = {f"field{number}": 1 for number in range(1_000)}
    answer = controller.http.post(STREAM + "/reports", json=good | unknown)
    assert len(answer.json()["errors"]) == 20
    assert len(answer.content) < 4_000


def test_a_report_equals_what_is_stored_for_audit(controller: Controller) -> None:
    controller.report_all(REPORTS)
    with controller.service.database.read() as session:
        bodies = session.scalars(select(ReportBodyRow.body).order_by(ReportBodyRow.report_id)).all()
    stored: list[Report] = [stored_report(body) for body in bodies]
    assert stored == REPORTS
