"""``tidemark export --odcs``: what a data catalogue reads, against the rules of the standard."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
import yaml
from typer.testing import CliRunner

from tidemark.controller.base.clock import utc_text
from tidemark.controller.tools.cli import app

from support.controller_app import Controller
from support.served import served
from support.shown import report_half_an_hour

pytestmark = pytest.mark.slow

PLAIN = {"type": ["string", "number", "integer", "boolean", "null"]}
STABLE_ID = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
TEXT = {"type": "string"}
RULES: dict[str, Any] = {
    "type": "object",
    "required": ["version", "apiVersion", "kind", "id", "status"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "v3.1.0"},
        "kind": {"const": "DataContract"},
        **dict.fromkeys(("version", "id", "name", "status"), TEXT),
        "slaProperties": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["property", "value"],
                "additionalProperties": False,
                "properties": {
                    "id": STABLE_ID,
                    "value": PLAIN,
                    "valueExt": PLAIN,
                    "driver": {"enum": ["regulatory", "analytics", "operational"]},
                    **dict.fromkeys(("property", "unit", "description"), TEXT),
                },
            },
        },
        "customProperties": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["property", "value"],
                "additionalProperties": False,
                "properties": {
                    "property": {"type": "string", "pattern": "^[a-z][A-Za-z]*$"},
                    "value": PLAIN,
                    "description": TEXT,
                },
            },
        },
    },
}
"""What version 3.1.0 asks of a contract, as far as we write it, and nothing more than that."""


def exported(controller: Controller, *arguments: str) -> list[dict[str, Any]]:
    with served(controller.app) as url:
        done = CliRunner().invoke(app, ["export", "--odcs", *arguments, "--url", url])
    assert done.exit_code == 0, done.output
    contracts: list[dict[str, Any]] = list(yaml.safe_load_all(done.stdout))
    for contract in contracts:
        jsonschema_rs.validate(RULES, contract)
    return contracts


def sla(contract: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {each["property"]: (each["value"], each["unit"]) for each in contract["slaProperties"]}


def measured(contract: dict[str, Any]) -> dict[str, Any]:
    return {each["property"]: each["value"] for each in contract["customProperties"]}


def test_a_contract_has_the_slo_and_how_it_is_kept_as_the_status_says(controller: Controller) -> None:
    report_half_an_hour(controller)
    controller.put("/slo", {"target_ppm": 995_000, "latency_cap_ms": 900_000})
    controller.snapshot()
    (contract,) = exported(controller)
    status = controller.status()
    assert (contract["name"], contract["version"]) == ("job/stream", str(status["slo"]["generation"]))
    assert sla(contract) == {"completeness": (99.5, "%"), "latency": (900, "s")}
    curve = controller.get("/curve", params={"bound_ms": status["effective_bound_ms"]}).json()
    assert measured(contract) == {
        "completenessMinimum": status["completeness"]["min_ppm"] / 10_000,
        "completenessMaximum": status["completeness"]["max_ppm"] / 10_000,
        "completenessProvisional": status["completeness"]["provisional"],
        "latencyMean": curve["points"][0]["latency_wall_ms"] / 1_000,
        "errorBudgetRemaining": status["budget"]["remaining_ppm"] / 10_000,
        "measuredUntil": utc_text(status["evidence"]["to_us"]),
    }


def test_what_is_not_known_yet_is_left_out(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000, "objective": "timeslices", "good_windows_ppm": 980_000})
    (contract,) = exported(controller, "job", "stream")
    assert sla(contract) == {"completeness": (99, "%")}
    assert contract["slaProperties"][0]["valueExt"] == 98
    assert measured(contract) == {}


def test_two_formats_at_once_are_refused_and_a_stream_without_an_slo_has_no_contract(
    controller: Controller,
) -> None:
    done = CliRunner().invoke(app, ["export", "--odcs", "--openslo"])
    assert (done.exit_code, done.stderr) == (2, "tidemark: give --openslo or --odcs, not both\n")
    with served(controller.app) as url:
        none = CliRunner().invoke(app, ["export", "--odcs", "--url", url])
    assert none.exit_code == 1
    assert "no such stream has an SLO" in none.output
