"""What the Helm chart gives to Prometheus and Grafana: the rules and dashboards that they get by file, too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.chart import EVERYTHING, kinds, rendered
from support.prometheus import stream_labels_by_file
from support.tree import ROOT


def test_the_dashboards_are_where_grafanas_sidecar_looks() -> None:
    found = kinds(rendered(*EVERYTHING, "--skip-tests"))
    boards = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
    assert boards
    for path in boards:
        board = found[f"ConfigMap/tidemark-dashboard-{path.stem}"]
        assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert board["metadata"]["annotations"] == {"grafana_folder": "Tidemark"}
        text = (
            path.read_text(encoding="utf-8").replace("http://localhost:8642", "https://example.org").strip()
        )
        assert board["data"] == {f"tidemark-{path.name}": text}


def test_the_rules_are_all_of_those_that_prometheus_gets_by_file() -> None:
    groups = kinds(rendered(*EVERYTHING, "--skip-tests"))["PrometheusRule"]["spec"]["groups"]
    expected = []
    for path in sorted((ROOT / "deploy" / "prometheus" / "rules").iterdir()):
        text = path.read_text(encoding="utf-8").replace("https://tidemark.example", "https://example.org")
        expected += yaml.safe_load(text)["groups"]
    assert expected
    assert groups == expected


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ((), "http://tidemark.tidemark:8642"),
        (("--set", "ingress.enabled=true", "--set", "ingress.host=a.b"), "https://a.b"),
    ],
)
def test_the_links_of_the_alerts_lead_to_the_controller(options: tuple[str, ...], address: str) -> None:
    rules = kinds(rendered("--set", "prometheusRule.enabled=true", *options))["PrometheusRule"]["spec"]
    links = re.findall(r"(?:runbook|page)_url: (\S+?)/(?:runbooks/|#|\s|$)", yaml.safe_dump(rules))
    assert set(links) == {address}


def test_alerts_carry_labels_of_streams_as_in_the_rules_by_file() -> None:
    options = ("--set", "prometheusRule.enabled=true", "--set", "prometheusRule.streamLabels={team,tier}")
    groups = kinds(rendered(*options))["PrometheusRule"]["spec"]["groups"]
    text = stream_labels_by_file()
    expected = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    found = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert sum("team" in rule["labels"] for rule in found) > 10
    for rule, by_file in zip(found, expected, strict=True):
        tier = rule["labels"].pop("tier", None)
        assert rule["labels"] == by_file["labels"]
        assert tier == (by_file["labels"]["team"].replace("team", "tier") if tier else None)


def test_promtool_takes_the_rules_of_the_chart(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here; `make services` installs it")
    spec = kinds(rendered(*EVERYTHING, "--skip-tests"))["PrometheusRule"]["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    done = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
