"""What an event says: names by OpenLineage's rules, what is known, and nothing of what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from openlineage.client.event_v2 import RunState

from tidemark.controller.view.lineage.events import SCHEMA, StreamRun, name_of, run_event
from tidemark.models.completeness.outcome import Window, WindowEstimate, WindowScore
from tidemark.models.protocol.datasets import NO_DATASETS, Datasets

from support.lineage import as_sent, facet_of, problems
from support.reports import START_US
from support.streams import SECOND
from support.tree import ROOT

ADDRESS = "https://tidemark.example.com"
TOPIC, TABLE = "kafka://broker:9092/clicks", "s3a://lake/shop/clicks"
ESTIMATE = WindowEstimate(
    expected=1_000,
    expected_min=995,
    expected_max=1_010,
    came_ppm=995_000,
    came_min_ppm=985_148,
    came_max_ppm=1_000_000,
    settled=False,
    reached_us=START_US,
    reached_max_us=None,
    silent=[],
    score=WindowScore(windows=200, within=191, settled=100, rightly=99),
)
CLOSED = Window(
    end_us=START_US,
    state="Closed",
    asked_ppm=990_000,
    outcome="NotYet",
    rows=995,
    late_min=3,
    late_max=4,
    counted_min_ppm=995_979,
    counted_max_ppm=996_984,
    estimate=ESTIMATE,
    unknown=None,
)
RUN = StreamRun(
    job="shop",
    stream="clicks",
    run_id="0f7b6f0e-4f0c-4a5e-9f6e-0f8c5f0b7a11",
    started_us=START_US - 60 * SECOND,
    seen_us=START_US + SECOND,
    datasets=Datasets(inputs=(TOPIC,), output=TABLE),
    closed=CLOSED,
    settled_us=START_US - 10 * SECOND,
)


def sent(run: StreamRun = RUN, state: RunState = RunState.RUNNING, **changes: Any) -> dict[str, Any]:
    return as_sent(run_event(replace(run, **changes), state, START_US + 2 * SECOND, ADDRESS))


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (TOPIC, ("kafka://broker:9092", "clicks")),
        (TABLE, ("s3://lake", "shop/clicks")),
        ("s3n://lake/", ("s3://lake", "/")),
        ("gs://lake/a/", ("gs://lake", "a")),
        ("abfs://box@account.dfs.core.windows.net/a", ("abfss://box@account.dfs.core.windows.net", "a")),
        ("hdfs://name:8020/a/b", ("hdfs://name:8020", "/a/b")),
        ("file:/a/b", ("file", "/a/b")),
        ("file:///a/b", ("file", "/a/b")),
        ("dbfs:/a", ("dbfs", "/a")),
    ],
)
def test_datasets_are_called_as_other_producers_call_them(address: str, name: tuple[str, str]) -> None:
    assert name_of(address) == name


def test_an_event_names_the_stream_its_parent_and_what_is_read_and_written() -> None:
    event = sent()
    assert (event["eventType"], event["job"]["namespace"], event["job"]["name"]) == (
        "RUNNING",
        "tidemark",
        "shop.clicks",
    )
    assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert event["run"]["facets"]["parent"]["run"] == {"runId": RUN.run_id, "facets": {}}
    assert event["run"]["facets"]["parent"]["job"]["name"] == "shop"
    ((read, written),) = zip(event["inputs"], event["outputs"], strict=True)
    assert (read["namespace"], read["name"]) == name_of(TOPIC)
    assert (written["namespace"], written["name"]) == name_of(TABLE)
    counts = read["inputFacets"]["dataQualityMetrics"]
    assert (counts["rowCount"], counts["columnMetrics"]) == (995, {})


def test_the_facet_has_the_window_and_keeps_to_its_schema() -> None:
    facet = facet_of(sent())
    assert facet is not None
    assert problems(facet) == []
    assert facet == {
        "_producer": ADDRESS,
        "_schemaURL": f"{ADDRESS}/schemas/{SCHEMA}#/$defs/TidemarkCompletenessDatasetFacet",
        "job": "shop",
        "stream": "clicks",
        "asOf": "2026-01-01T00:00:01+00:00",
        "settledWindowEnd": "2025-12-31T23:59:50+00:00",
        "closedWindowEnd": "2026-01-01T00:00:00+00:00",
        "rows": 995,
        "lateRowsMin": 3,
        "lateRowsMax": 4,
        "countedShareMin": 0.995979,
        "countedShareMax": 0.996984,
        "cameShare": 0.995,
        "cameShareMin": 0.985148,
        "cameShareMax": 1.0,
        "askedShare": 0.99,
    }


def test_the_schema_has_every_part_of_the_facet_and_refuses_what_is_wrong() -> None:
    schema = json.loads((ROOT / "controller/view/lineage" / SCHEMA).read_text(encoding="utf-8"))
    parts = schema["$defs"]["TidemarkCompletenessDatasetFacet"]["allOf"][1]["properties"]
    known, unknown = facet_of(sent()), facet_of(sent(closed=replace(CLOSED, estimate=None, unknown="why")))
    assert known is not None
    assert unknown is not None
    assert {name for name in {**known, **unknown} if not name.startswith("_")} == set(parts)
    assert problems(unknown) == []
    for wrong in ({"cameShare": 1.1}, {"rows": -1}, {"asOf": "yesterday"}, {"unknown": None}):
        assert problems(known | wrong) != []
    for name in ("_producer", "stream", "closedWindowEnd"):
        assert problems({key: value for key, value in known.items() if key != name}) != []


def test_what_is_not_known_is_left_out() -> None:
    bare = sent(datasets=NO_DATASETS)
    assert (bare["inputs"], bare["outputs"], facet_of(bare)) == ([], [], None)
    assert facet_of(sent(closed=None)) is None
    facet = facet_of(sent(settled_us=None, closed=replace(CLOSED, estimate=None, unknown="too few rows")))
    assert facet is not None
    assert facet["unknown"] == "too few rows"
    assert {"settledWindowEnd", "cameShare", "cameShareMin", "cameShareMax"} & set(facet) == set()
    # No date has it.
    far = facet_of(sent(settled_us=2**60))
    assert far is not None
    assert "settledWindowEnd" not in far


def test_without_an_output_the_facet_is_on_what_is_read() -> None:
    event = sent(datasets=Datasets(inputs=(TOPIC,)))
    assert event["outputs"] == []
    assert facet_of(event) is not None


def test_rows_of_several_inputs_are_said_of_none() -> None:
    event = sent(datasets=Datasets(inputs=(TOPIC, "kafka://broker:9092/taps"), output=TABLE))
    assert [each["inputFacets"] for each in event["inputs"]] == [{}, {}]


def test_the_sides_of_a_join_are_runs_of_their_own_with_one_parent() -> None:
    clicks, taps = sent(), sent(stream="taps")
    assert clicks["run"]["runId"] != taps["run"]["runId"]
    assert clicks["run"]["runId"] == sent()["run"]["runId"] != sent(job="other")["run"]["runId"]
    assert clicks["run"]["facets"] == taps["run"]["facets"]


def test_an_id_that_is_no_uuid_is_always_made_the_same_one() -> None:
    parents = [
        sent(run_id=name)["run"]["facets"]["parent"]["run"]["runId"] for name in ("run 1", "run 2", "run 1")
    ]
    assert parents[0] == parents[2] != parents[1]
    assert UUID(parents[0]).version == 5
