"""What is refused, with a problem that points at what is wrong, and stores nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.reports.sent_bodies import parse_report
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import STREAM, Controller
from support.examples import examples
from support.reports import START_US, exponential_batches, query_reports
from support.stored_rows import stored_rows

REPORTS = query_reports(exponential_batches(6, 40))


GOOD = to_json_object(query_reports(exponential_batches(3, 8))[2])
OPTIONAL = {
    "dropped_reports",
    "start_us",
    "future_rows",
    "append_delay",
    "live",
    "contradiction",
    "reread",
    "final_watermark_ms",
    "sent_us",
    "drops_late",
}
NULLABLE = {
    "generation",
    "late_watermark_ms",
    "late_base_ms",
    "min_event_time_us",
    "max_event_time_us",
    "append_delay",
    "contradiction",
    "live",
    "final_watermark_ms",
    "sent_us",
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
    before = stored_rows(controller)
    answer = controller.send("/reports", json.dumps(body).encode())
    found = answer.json()
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert found["errors"], found
    assert any(error["pointer"].startswith(wanted) for error in found["errors"] for wanted in pointers), (
        pointers,
        found["errors"],
    )
    assert stored_rows(controller) == before


@pytest.mark.parametrize("path", [path for path in FIELDS if path[-1] not in OPTIONAL], ids=pointer)
def test_a_report_without_a_field_is_refused_with_the_pointer_to_it(
    refusing: Controller, path: tuple[str | int, ...]
) -> None:
    # What is missing is pointed at itself, but for the tag that says which operator it is.
    refused(refusing, dropped(path), "/operator" if path == ("operator", "kind") else pointer(path))


@pytest.mark.slow
@examples(150)
@given(st.sampled_from(PLACES), st.sampled_from(WRONG))
def test_a_report_with_anything_of_another_type_is_refused_and_nothing_is_stored(
    refusing: Controller, path: tuple[str | int, ...], value: Any
) -> None:
    kinds = {type(_at(GOOD, path)), *([str] if path == ("contradiction",) else ())}
    if type(value) in kinds & {str, bool}:
        return  # another text, or the other truth, is of the same type
    wanted = {pointer(path), pointer(path[:-1])}
    if path[0] == "counts":
        # A count is a number however huge; what is wrong is that columns do not fit each other or the rows.
        wanted |= {"/counts", "/rows"}
    refused(refusing, retyped(path, value), *wanted)


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        document = document[part]
    return document


@examples(40)
@given(
    st.sampled_from(
        [(), *(path for path in PLACES if isinstance(_at(json.loads(json.dumps(GOOD)), path), dict))]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12),
)
def test_a_report_with_a_field_too_many_is_the_one_without_it(path: tuple[str | int, ...], name: str) -> None:
    """A later release may have it."""
    if name in _at(GOOD, path):
        return
    body = json.dumps(retyped((*path, name), 1)).encode()
    assert parse_report(body) == parse_report(json.dumps(GOOD).encode())


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
    bomb = gzip.compress(b" " * 20_000_000)
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


def test_of_thousands_of_errors_the_first_of_each_column_or_twenty_are_listed(controller: Controller) -> None:
    """A wrong client makes the same error everywhere: an answer of megabytes would help nobody."""
    good = to_json_object(REPORTS[0])
    columns = {
        **dict.fromkeys(("partitions", "sizes", "future_rows"), [None] * 90_000),
        "granules": ["x"] * 100_000,
        "rows": [1.5] * 200_000,
    }
    answer = controller.http.post(STREAM + "/reports", json=good | {"counts": columns})
    assert answer.status_code == 422
    assert "/counts/partitions/0: it must be a text (and 4 more)" in answer.json()["detail"]
    answer = controller.http.post(STREAM + "/reports", json=dict.fromkeys(good, "x") | {"schema_version": 1})
    assert len(answer.json()["errors"]) == 20
    assert len(answer.content) < 4_000
