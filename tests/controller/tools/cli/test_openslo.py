"""``tidemark export --openslo``: what other tools read, against OpenSLO's specification."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.base.counters import HELP
from tidemark.controller.server.schemas.specs import SloAnswer
from tidemark.controller.tools.cli import app
from tidemark.controller.tools.documents.openslo import documents_text, openslo_documents

from support.controller_app import Controller
from support.prometheus import names_in
from support.served import served

NAME = {"type": "string", "pattern": r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
SOURCE = {
    "type": "object",
    "required": ["metricSource"],
    "additionalProperties": False,
    "properties": {
        "metricSource": {
            "type": "object",
            "required": ["type", "spec"],
            "additionalProperties": False,
            "properties": {
                "type": {"const": "Prometheus"},
                "spec": {"type": "object", "required": ["query"]},
            },
        }
    },
}
ANNOTATIONS = {
    "type": "object",
    "propertyNames": {
        "pattern": "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$"
    },
    "additionalProperties": {"type": "string"},
}
SHARE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
SPECS: dict[str, dict[str, Any]] = {
    "Service": {"properties": {"description": {"type": "string", "maxLength": 1_050}}},
    "SLI": {
        "required": ["ratioMetric"],
        "properties": {
            "description": {"type": "string", "maxLength": 1_050},
            "ratioMetric": {
                "type": "object",
                "required": ["counter", "good", "total"],
                "additionalProperties": False,
                "properties": {"counter": {"const": True}, "good": SOURCE, "total": SOURCE},
            },
        },
    },
    "SLO": {
        "required": ["service", "indicatorRef", "timeWindow", "budgetingMethod", "objectives"],
        "properties": {
            "description": {"type": "string", "maxLength": 1_050},
            "service": NAME,
            "indicatorRef": NAME,
            "timeWindow": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "items": {
                    "type": "object",
                    "required": ["duration", "isRolling"],
                    "additionalProperties": False,
                    "properties": {
                        "duration": {"type": "string", "pattern": "^[1-9][0-9]*[mhdwMQY]$"},
                        "isRolling": {"const": True},
                    },
                },
            },
            "budgetingMethod": {"enum": ["Occurrences", "Timeslices"]},
            "objectives": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "items": {
                    "type": "object",
                    "required": ["target"],
                    "additionalProperties": False,
                    "properties": {
                        "displayName": {"type": "string", "minLength": 1},
                        "target": SHARE,
                        "timeSliceTarget": SHARE,
                        "timeSliceWindow": {"type": "string", "pattern": "^[1-9][0-9]*[mhdwMQY]$"},
                    },
                },
            },
        },
    },
}
"""What the specification of OpenSLO v1 asks of each kind, as far as we write it, and nothing more than that."""


def check(document: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": "openslo/v1"},
            "kind": {"enum": list(SPECS)},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {
                    "name": NAME,
                    "displayName": {"type": "string", "minLength": 1},
                    "annotations": ANNOTATIONS,
                },
            },
            "spec": {"type": "object", "additionalProperties": False, **SPECS[document["kind"]]},
        },
    }
    jsonschema_rs.validate(schema, document)


def slo(**changes: Any) -> SloAnswer:
    fields: dict[str, Any] = {
        "target_ppm": 995_000,
        "latency_cap_ms": None,
        "on_conflict": None,
        "confidence_ppm": 950_000,
        "horizon_ms": None,
        "objective": "occurrences",
        "good_windows_ppm": 990_000,
        "window_ms": 30 * 86_400_000,
        "state_cap_rows": None,
        "worst_window_ppm": None,
        "generation": 1,
        "updated_us": 0,
    }
    return SloAnswer(**{**fields, **changes})


def one(kind: str, job: str = "shop", stream: str = "clicks", **changes: Any) -> dict[str, Any]:
    documents = list(openslo_documents([(job, stream, slo(**changes))]))
    for document in documents:
        check(document)
    (found,) = (document for document in documents if document["kind"] == kind)
    return found


@pytest.mark.slow
def test_the_command_prints_the_slos_of_the_controller(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 995_000})
    controller.put("/policy", {"mode": "OnRestart"})
    with served(controller.app) as url:
        done = CliRunner().invoke(app, ["export", "--openslo", "--url", url])
        other = CliRunner().invoke(app, ["export", "--openslo", "job", "other", "--url", url])
    assert done.exit_code == 0, done.output
    documents = list(yaml.safe_load_all(done.stdout))
    assert [document["kind"] for document in documents] == ["Service", "SLI", "SLO"]
    for document in documents:
        check(document)
    assert documents[2]["spec"]["objectives"] == [{"displayName": "completeness", "target": 0.995}]
    assert other.exit_code == 1
    assert "nothing is known of stream 'other' of job 'job'" in other.output


def test_an_slo_says_target_window_and_what_it_is_measured_by() -> None:
    document = one("SLO")
    assert document["metadata"] == {
        "name": "shop-clicks",
        "displayName": "shop/clicks",
        "annotations": {"tidemark/job": "shop", "tidemark/stream": "clicks"},
    }
    assert document["spec"]["timeWindow"] == [{"duration": "30d", "isRolling": True}]
    assert document["spec"]["budgetingMethod"] == "Occurrences"
    indicator = one("SLI")
    assert indicator["metadata"]["name"] == document["spec"]["indicatorRef"] == "shop-clicks"
    ratio = indicator["spec"]["ratioMetric"]
    queries = [ratio[part]["metricSource"]["spec"]["query"] for part in ("good", "total")]
    assert queries == [
        'max(tidemark_rows_admitted_total{spark_job="shop",stream="clicks"})',
        'max(tidemark_rows_judged_total{spark_job="shop",stream="clicks"})',
    ]
    assert all(names_in(query) <= set(HELP) for query in queries)
    assert one("Service")["metadata"]["name"] == document["spec"]["service"]


def test_timeslices_are_shares_of_windows() -> None:
    spec = one("SLO", objective="timeslices", good_windows_ppm=980_000)["spec"]
    assert spec["budgetingMethod"] == "Timeslices"
    assert spec["objectives"][0]["target"] == 0.98
    assert spec["objectives"][0]["timeSliceTarget"] == 0.995
    assert (
        one("SLO", objective="timeslices", good_windows_ppm=1_000_000)["spec"]["objectives"][0]["target"] < 1
    )


@pytest.mark.parametrize(
    ("window_ms", "duration"),
    [(7 * 86_400_000, "7d"), (36 * 3_600_000, "36h"), (90 * 60_000, "90m"), (89_000, "1m"), (1, "1m")],
)
def test_windows_are_in_whole_minutes_at_least_one(window_ms: int, duration: str) -> None:
    assert one("SLO", window_ms=window_ms)["spec"]["timeWindow"][0]["duration"] == duration


@given(st.lists(st.tuples(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200)), unique=True))
def test_whatever_streams_are_called_their_names_are_valid_and_apart(names: list[tuple[str, str]]) -> None:
    documents = list(openslo_documents([(*name, slo()) for name in names]))
    for document in documents:
        check(document)
    for kind in SPECS:
        body = [document["metadata"]["name"] for document in documents if document["kind"] == kind]
        assert len(set(body)) == len(body)


@given(st.text(min_size=1, max_size=50).filter(lambda text: text.isprintable()))
def test_what_is_written_is_read_back_as_it_is(stream: str) -> None:
    text = documents_text(openslo_documents([("shop", stream, slo())]))
    assert list(yaml.safe_load_all(text)) == list(openslo_documents([("shop", stream, slo())]))
    assert not re.search(r"!!python", text)


def test_names_that_are_equal_with_a_dash_between_stay_distinct() -> None:
    assert one("SLO", "a-b", "c")["metadata"]["name"] != one("SLO", "a", "b-c")["metadata"]["name"]
