"""Prometheus' rules: they hold what their cases say, exist in the code, and agree with notifier and runbooks."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tidemark.controller.base.alert_table import ALERTS
from tidemark.controller.base.counters import HELP, IN_DETAIL, LABELS
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import Controller
from support.paced_job import PacedReports
from support.prometheus import (
    RULES,
    TESTS,
    alert_rules,
    names_in,
    program,
    recorded,
    rules,
    scaled,
    stream_labels_by_file,
)
from support.streams import SECOND
from support.tree import ROOT
from support.whole_stream import whole_controller

pytestmark = pytest.mark.slow

CASES = sorted(TESTS.glob("*.yaml"))
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SCRAPED = {"instance", "job"}
"""Labels that Prometheus gives to all that it scrapes."""

OF_TARGETS = {"cluster", "namespace"}
"""Labels that a fleet's Prometheus gives to targets, which every aggregation keeps."""

SUFFIXES = ("_bucket", "_sum", "_count")


def output_of(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def series_of(path: Path) -> list[tuple[str, frozenset[str]]]:
    """Return (name, names of labels) of every input series of a file of cases."""
    cases = yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
    found = []
    for case in cases:
        for given in case["input_series"]:
            name, _, labels = given["series"].partition("{")
            found.append((name, frozenset(key for key, _ in LABEL.findall(labels))))
    return found


@pytest.mark.parametrize("path", sorted(RULES.glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_takes_the_rules(path: Path) -> None:
    assert "SUCCESS" in output_of([program("promtool"), "check", "rules", path])


@pytest.mark.long
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_not_when_they_should_not(path: Path) -> None:
    assert "SUCCESS" in output_of([program("promtool"), "test", "rules", path])


def test_an_alert_on_a_stream_carries_its_labels_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(stream_labels_by_file(), "utf-8")
    streams = {"clicks": ("team", "web"), "views": ("note", "x")}
    case = {
        "interval": "1m",
        "input_series": [
            {
                "series": f'{metric}{{cluster="east",spark_job="shop",stream="{stream}"{more}}}',
                "values": "1+0x60",
            }
            for stream, (name, value) in streams.items()
            for metric, more in (
                ("tidemark_bound_saturated", ""),
                ("tidemark_stream_info", f',{name}="{value}"'),
            )
        ],
        "promql_expr_test": [
            {
                "expr": 'sum by (stream, team) (ALERTS{alertname="TidemarkBoundSaturated",alertstate="firing"})',
                "eval_time": "45m",
                "exp_samples": [
                    {"labels": '{stream="clicks", team="web"}', "value": 1},
                    {"labels": '{stream="views", team="none"}', "value": 1},
                ],
            }
        ],
    }
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": [case]}), "utf-8")
    assert "SUCCESS" in output_of([program("promtool"), "test", "rules", path])


def test_the_series_of_the_cases_are_named_and_labelled_as_in_a_real_scrape(tmp_path: Path) -> None:
    with whole_controller(f"sqlite:///{tmp_path / 't.db'}") as controller:
        text = controller.http.get("/metrics?detail=all").text
    exposed = {
        (sample.name, frozenset(sample.labels) | SCRAPED | more)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for more in (set(), OF_TARGETS)
    }
    for path in CASES:
        assert set(series_of(path)) - exposed == set(), path.name


def test_every_alert_has_cases_in_which_it_fires_and_in_which_it_does_not() -> None:
    fires, silent = set(), set()
    for path in CASES:
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for expected in case.get("alert_rule_test", []):
                severities = {each["exp_labels"]["severity"] for each in expected.get("exp_alerts") or []}
                fires |= {(expected["alertname"], severity) for severity in severities}
                if not severities:
                    silent.add(expected["alertname"])
    assert fires == {(rule["alert"], rule["labels"]["severity"]) for rule in alert_rules()}
    assert silent == {rule["alert"] for rule in alert_rules()}


def test_every_metric_and_label_in_the_rules_is_in_a_scrape_by_default() -> None:
    known = (set(HELP) - IN_DETAIL) | recorded()
    labels = {label for names in LABELS.values() for label in names} | SCRAPED | OF_TARGETS
    sloth = {"sloth_id", "sloth_service", "sloth_slo", "sloth_window", "sloth_severity", "severity"}
    for rule in rules():
        assert names_in(rule["expr"]) - known == set(), rule
        assert names_in(rule["expr"]), rule
        named = set(re.findall(r"\{\{ \$labels\.(\w+) \}\}", str(rule)))
        for listed in re.findall(r"\b(?:by|on|ignoring|group_left) \(([^()]*)\)", rule["expr"]):
            named |= {name.strip() for name in listed.split(",") if name.strip()}
        named |= {key for key, _ in LABEL.findall(rule["expr"])}
        assert named - labels - sloth == set(), rule


def test_every_aggregation_keeps_the_cluster_and_the_namespace() -> None:
    for rule in rules():
        for listed in re.findall(r"\b(?:by|on) \(([^()]+)\)", rule["expr"]):
            assert {name.strip() for name in listed.split(",")} >= OF_TARGETS, rule
        # What is found nowhere has no labels to match.
        elsewhere = re.sub(r"or on \(\)\s+absent\(", "", rule["expr"])
        assert not re.search(r"\bon \(\)|\b(?:max|min|sum|count|group)\s*\(", elsewhere), rule


def test_the_notifier_and_the_rules_say_the_same() -> None:
    """Names, severities, how long each must hold, labels and words: one table names both."""
    said = [(rule["alert"], rule["labels"]["severity"]) for rule in alert_rules()]
    assert said == [(alert.name, alert.severity) for alert in ALERTS]
    for rule, alert in zip(alert_rules(), ALERTS, strict=True):
        assert _microseconds(rule.get("for", "0s")) == alert.hold_us, alert.name
        assert _plain(rule["annotations"]["summary"]) == alert.summary
        assert _plain(rule["annotations"]["description"]) == alert.description
        assert rule["annotations"]["runbook_url"] == f"https://tidemark.example/runbooks/{alert.name}.md"
        page = "#/streams/{spark_job}/{stream}" if "stream" in alert.labels else ""
        assert _plain(rule["annotations"]["page_url"]) == f"https://tidemark.example/{page}"
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url", "page_url"}
        grouped = {
            name.strip()
            for names in re.findall(r"\bby \(([^()]*)\)", rule["expr"])
            for name in names.split(",")
        }
        of_rule = (grouped - OF_TARGETS) | (set(rule["labels"]) - {"severity"})
        assert of_rule <= set(alert.labels), alert.name


def test_the_labels_of_fired_alerts_are_those_of_the_notifier() -> None:
    by_alert = {(alert.name, alert.severity): set(alert.labels) for alert in ALERTS}
    for path in CASES:
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for expected in case.get("alert_rule_test", []):
                for alert in expected.get("exp_alerts") or []:
                    labels = alert["exp_labels"]
                    assert set(labels) - {"severity"} == by_alert[expected["alertname"], labels["severity"]]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    pages = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (ROOT / "controller/server/runbooks").glob("*.md")
    }
    assert set(pages) == {alert.name for alert in ALERTS}
    for name, text in pages.items():
        assert text.startswith(f"# {name}\n")
        headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert headings == ["What it means", "How to look", "What to do", "How it resolves"], name


def test_amtool_takes_the_example_and_every_alert_that_it_names_exists() -> None:
    path = ROOT / "deploy" / "prometheus" / "alertmanager.yml"
    assert "SUCCESS" in output_of([program("amtool"), "check-config", path])
    named = set(re.findall(r"Tidemark[A-Z]\w+", path.read_text(encoding="utf-8")))
    known = {alert.name for alert in ALERTS}
    assert {name for name in named if not any(each.startswith(name) for each in known)} == set()


def test_scaling_the_rules_changes_lengths_of_time_and_nothing_else() -> None:
    """The tests with a real Prometheus run the shipped rules, only faster."""
    path = RULES / "tidemark-alerts.yaml"
    before = path.read_text(encoding="utf-8")
    assert scaled(before, 1) == re.sub(
        r"(?<![\w.])(\d+)([mhd])\b(?=[^#\n]*$)",
        lambda found: f"{int(found[1]) * {'m': 60, 'h': 3_600, 'd': 86_400}[found[2]]}s",
        before,
        flags=re.MULTILINE,
    )
    after = scaled(before, 1 / 60)
    digits = re.compile(r"\d+[smhd]?\b")
    assert digits.sub("#", before) == digits.sub("#", after)
    assert "> 30\n" in after
    assert "(tidemark_batch_gap_seconds), 5)" in after
    assert "offset 15s" in after
    assert "for: 30s" in after
    assert ">= 10" in after


def test_a_controller_says_whose_job_it_is_in_a_label_that_prometheus_does_not_take(
    tmp_path: Path,
) -> None:
    with Controller(f"sqlite:///{tmp_path / 't.db'}") as controller:
        text = controller.http.get("/metrics?detail=all").text
    labels = {
        label
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for label in sample.labels
    }
    assert not labels & SCRAPED


# -- the rules on what a controller exposes, in time that the test keeps ---------------------------------------------


class Scrapes:
    """What a controller exposed at each scrape, as the input of ``promtool test rules``."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._begun_s = controller.clock() / SECOND
        self._values: dict[str, list[str]] = {}
        self.count = 0

    def take(self) -> None:
        """Scrape once; promtool's time begins at 0, so moments are counted from the first scrape."""
        for family in text_string_to_metric_families(self._controller.http.get("/metrics?detail=all").text):
            for sample in family.samples:
                labels = {**sample.labels, "instance": "controller:8642", "job": "tidemark"}
                pairs = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
                moment = sample.name.endswith("_timestamp_seconds")
                value = sample.value - self._begun_s if moment else sample.value
                held = self._values.setdefault(f"{sample.name}{{{pairs}}}", ["_"] * self.count)
                held.append(repr(value))
        self.count += 1
        for held in self._values.values():
            if len(held) < self.count:
                # What is not exposed any more ends at once.
                held.append("_" if held[-1] in {"stale", "_"} else "stale")

    def input_series(self) -> list[dict[str, str]]:
        found = {name: " ".join(values) for name, values in self._values.items()}
        found['up{instance="controller:8642",job="tidemark"}'] = " ".join(["1"] * self.count)
        return [{"series": name, "values": values} for name, values in found.items()]


def fired(*alerts: tuple[str, str, str, str | None]) -> list[dict[str, Any]]:
    """Return alerts as promtool expects samples: by name, severity, job and partition."""
    return [
        {
            "labels": f'{{alertname="{name}", severity="{severity}", spark_job="{job}"'
            + ("}" if partition is None else f', partition="{partition}"}}'),
            "value": 1,
        }
        for name, severity, job, partition in alerts
    ]


@pytest.mark.soak
def test_what_is_wrong_fires_and_nothing_else_on_what_a_controller_exposes(tmp_path: Path) -> None:
    """Healthy jobs for ten minutes, three kinds of trouble for a quarter of an hour, and then all is mended."""
    skewed, stopped = PacedReports("skewed", bound_ms=300_000), PacedReports("stopped", bound_ms=10_000)
    burst = PacedReports("burst", bound_ms=10_000)
    jobs = (skewed, stopped, burst)
    with Controller(f"sqlite:///{tmp_path / 't.db'}") as controller:
        scrapes = Scrapes(controller)

        def go_on(minutes: int) -> str:
            for _ in range(minutes * 2):
                for job in jobs:
                    if not job.stopped:
                        answer = controller.http.post(
                            f"/v1/jobs/{job.job}/streams/stream/reports",
                            json=to_json_object(job.next(controller.clock())),
                        )
                        assert answer.status_code == 201, answer.text
                controller.tick()
                controller.snapshot()
                scrapes.take()
                controller.clock.now_us += 30 * SECOND
            return f"{(scrapes.count - 1) * 30}s"

        go_on(1)
        for job in jobs:
            # The horizon is short, so that a partition that is mended is not held against it for long.
            body = {"target_ppm": 990_000, "horizon_ms": 600_000}
            assert controller.http.put(f"/v1/jobs/{job.job}/streams/stream/slo", json=body).is_success
        healthy = go_on(9)
        skewed.slow_s[2], stopped.stopped, burst.late_share = 200, True, 0.6
        go_on(15)
        skewed.slow_s.clear()
        stopped.stopped, burst.late_share = False, 0
        mended = go_on(35)

    ever = (
        'max by (alertname, severity, spark_job, partition) (max_over_time(ALERTS{alertstate="firing"}[3h]))'
    )
    now = 'max by (alertname, severity, spark_job, partition) (ALERTS{alertstate="firing"})'
    # The same rows, over longer windows, after nobody is paged for them any more.
    lasting = [
        ("TidemarkCompletenessBudgetBurn", "ticket", "burst", None),
        ("TidemarkCompletenessBudgetSpent", "ticket", "burst", None),
    ]
    troubles = [
        ("TidemarkPartitionSkewed", "ticket", "skewed", "2"),
        ("TidemarkReportsAbsent", "ticket", "stopped", None),
        ("TidemarkCompletenessBudgetBurn", "page", "burst", None),
    ]
    case = {
        "interval": "30s",
        "input_series": scrapes.input_series(),
        "promql_expr_test": [
            {"expr": ever, "eval_time": healthy, "exp_samples": []},
            {"expr": ever, "eval_time": mended, "exp_samples": fired(*troubles, *lasting)},
            {"expr": now, "eval_time": mended, "exp_samples": fired(*lasting)},
        ],
    }
    path = tmp_path / "scraped.yaml"
    rule_files = [str(each) for each in sorted(RULES.glob("*.yaml"))]
    path.write_text(
        yaml.safe_dump({"rule_files": rule_files, "evaluation_interval": "30s", "tests": [case]}), "utf-8"
    )
    assert "SUCCESS" in output_of([program("promtool"), "test", "rules", path])


def _plain(text: str) -> str:
    """Return an annotation with its placeholders as the notifier writes them."""
    text = re.sub(r"\{\{ with printf \"tidemark:budget_lasts:seconds.*\{\{ end \}\}", "{lasts}", text)
    return re.sub(
        r"\{\{ \$(?:labels\.(\w+)|(value))[^}]*\}\}", lambda found: f"{{{found[1] or found[2]}}}", text
    )


def _microseconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3_600}[text[-1]] * 1_000_000
