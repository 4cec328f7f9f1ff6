"""Grafana's dashboards: every metric and label that they ask for exists, and whoever looks finds what a panel means."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tidemark.controller.base.counters import HELP, IN_DETAIL, LABELS

from support.prometheus import names_in, program, recorded
from support.tree import ROOT

GRAFANA = ROOT / "deploy" / "grafana"
BOARDS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in (GRAFANA / "dashboards").glob("*.json")
}
HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
OF_PROMETHEUS = {"instance", "job", "le", "alertname", "alertstate", "cluster", "namespace"}
ONE_CONTROLLER = '{cluster=~"$cluster",namespace=~"$namespace"'
"""How each selector begins."""

OF_SLOTH = {"sloth_id", "sloth_service", "sloth_slo", "sloth_window"}
OF_THE_SOURCE = {"builtIn", "step", "titleFormat", "textFormat", "useValueForTime", "definition"}
"""Fields of annotations and variables that are the data source's, not the dashboard's."""

UNITS = {"none", "s", "percentunit", "rowsps", "ops", "short", "bytes"}


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, board in BOARDS.items():
        for panel in board["panels"]:
            if panel["type"] != "row":
                yield f"{name}: {panel['title']}", panel


def expressions() -> Iterator[tuple[str, str]]:
    for where, panel in panels():
        for target in panel["targets"]:
            yield where, target["expr"]
    for name, board in BOARDS.items():
        for annotation in board["annotations"]["list"]:
            if annotation["datasource"]["type"] == "prometheus":
                yield f"{name}: {annotation['name']}", annotation["expr"]
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{name}: ${variable['name']}", variable["query"]["query"]


def lost(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Return what has vanished or changed."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from lost(value, after.get(name), f"{where}/{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from lost(*pair, where=f"{where}/{index}")
    elif before != after:
        yield where


@pytest.mark.parametrize("name", BOARDS)
def test_grafanas_schema_knows_every_field_of_a_dashboard(name: str) -> None:
    """Read and written again by the schema's own types, which leave out what they do not know."""
    register_default_plugins()
    written = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(BOARDS[name])))
    assert {path.rpartition("/")[2] for path in lost(BOARDS[name], written)} <= OF_THE_SOURCE


def test_the_heat_map_has_fewer_points_than_its_panel_takes() -> None:
    """Grafana shows an error in its place where there are more than half as many as pixels."""
    (panel,) = [panel for _, panel in panels() if panel["type"] == "status-history"]
    assert panel["maxDataPoints"] <= 200


def test_there_are_a_fleet_and_a_stream() -> None:
    assert {name: board["uid"] for name, board in BOARDS.items()} == {
        "fleet": "tidemark-fleet",
        "stream": "tidemark-stream",
    }


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_metric_and_label_that_a_panel_asks_for_is_in_a_scrape_by_default(
    where: str, expression: str
) -> None:
    known = (set(HELP) - IN_DETAIL) | recorded()
    named = {
        HISTOGRAM.sub("", name) if HISTOGRAM.sub("", name) in HELP else name for name in names_in(expression)
    }
    assert named - known == set()
    assert named or "ALERTS{" in expression
    labels = {label for name in named & set(LABELS) for label in LABELS[name]} | OF_PROMETHEUS
    if "ALERTS{" in expression:
        labels |= {"severity", "spark_job", "stream"}
    if named & recorded():
        labels |= OF_SLOTH | {"spark_job", "stream"}
    asked = set(re.findall(r'(\w+)(?:=~|!~|!=|=)"', expression))
    for group in re.findall(r"\bby \(([^()]*)\)", expression):
        asked |= {label.strip() for label in group.split(",")}
    assert asked - labels == set()


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_a_panel_is_of_the_cluster_and_the_namespace_that_are_chosen(where: str, expression: str) -> None:
    if where.endswith(("$cluster", "$namespace")):
        return
    rest = re.sub(rf"[\w:]+{re.escape(ONE_CONTROLLER)}", "", expression)
    assert names_in(rest) == set()
    assert "ALERTS" not in rest


def test_prometheus_understands_what_the_panels_ask(tmp_path: Path) -> None:
    asked = [expression for _, expression in expressions() if "label_values" not in expression]
    filled = [
        expression.replace("$__rate_interval", "5m")
        .replace("$spark_job", "shop")
        .replace("$stream", "clicks")
        for expression in asked
    ]
    rules = [{"record": f"panel_{number}", "expr": expression} for number, expression in enumerate(filled)]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run(
        [program("promtool"), "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@pytest.mark.parametrize(("where", "panel"), list(panels()))
def test_every_panel_says_what_it_shows_in_which_unit_from_the_chosen_source(
    where: str, panel: dict[str, Any]
) -> None:
    assert len(panel["description"].split()) >= 4
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert sources == [{"type": "prometheus", "uid": "${datasource}"}] * len(sources)
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)


def test_a_legend_names_labels_that_its_series_have() -> None:
    for where, panel in panels():
        for target in panel["targets"]:
            wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            # Outermost aggregation last: what is inside may be grouped more finely.
            grouped = re.findall(r"\bby \(([^()]*)\)", target["expr"])
            if grouped:
                assert wanted <= {label.strip() for label in grouped[0].split(",")}, where
            else:
                assert wanted <= OF_PROMETHEUS, where


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_beside_each_other_and_have_ids_of_their_own(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[name]["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in BOARDS[name]["panels"]]
    assert len(set(ids)) == len(ids)


def test_links_between_dashboards_lead_somewhere() -> None:
    text = json.dumps(list(BOARDS.values()))
    assert set(re.findall(r"/d/([\w-]+)", text)) <= {board["uid"] for board in BOARDS.values()}


def test_the_link_to_the_page_leads_to_the_stream_that_is_shown() -> None:
    (link,) = [link for link in BOARDS["stream"]["links"] if link["title"] == "Tidemark's page"]
    assert link["url"] == "${tidemark}/#/streams/${spark_job:percentencode}/${stream:percentencode}"
    (variable,) = [one for one in BOARDS["stream"]["templating"]["list"] if one["name"] == "tidemark"]
    # The chart puts the controller's address in its place.
    assert variable["query"] == variable["current"]["value"] == "http://localhost:8642"


def test_annotations_say_when_the_bound_changed_and_what_fired() -> None:
    named = {name: [one["name"] for one in board["annotations"]["list"]] for name, board in BOARDS.items()}
    assert set(named["stream"]) >= {"Bound published", "Rollout", "Alerts"}
    assert "Alerts" in named["fleet"]
    for board in BOARDS.values():
        for one in board["annotations"]["list"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", f"{one.get('titleFormat')} {one.get('textFormat')}"))
            grouped = re.findall(r"\bby \(([^()]*)\)", one.get("expr", ""))
            assert labels <= {label.strip() for names in grouped for label in names.split(",")}, one["name"]


def test_grafana_is_given_where_the_dashboards_and_the_source_are() -> None:
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/tidemark.yaml").read_text())["providers"]
    assert provider["type"] == "file"
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text())[
        "datasources"
    ]
    assert source["type"] == "prometheus"
    compose = (ROOT / "deploy/compose/compose.yaml").read_text(encoding="utf-8")
    assert f"../grafana/dashboards:{provider['options']['path']}:ro" in compose
    assert "../grafana/provisioning:/etc/grafana/provisioning:ro" in compose
