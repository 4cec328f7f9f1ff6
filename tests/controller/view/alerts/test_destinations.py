"""The file of destinations: what it holds, who takes which alert, and how a mistake in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.controller.base.alert_table import ALERTS
from tidemark.controller.base.counters import LABELS
from tidemark.controller.base.operator_file import Destination, destinations_of, read_destinations, takers
from tidemark.controller.base.settings import ConfigurationError, load_settings
from tidemark.models.specs.slo import RESERVED_LABELS

FILE = """
[payments]
webhook = "https://hooks.example.org/payments"
token_file = "/run/secrets/payments"
match = {team = "payments"}

[pager]
webhook = "https://hooks.example.org/pager"
match = {severity = "page", tier = ["1", "2"]}

[everybody]
webhook = "https://hooks.example.org/everybody"
"""


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Destination]:
    file = tmp_path / "destinations.toml"
    file.write_text(FILE)
    return read_destinations(file)


@pytest.mark.parametrize(
    ("labels", "taken_by"),
    [
        ({"team": "payments", "severity": "ticket"}, ["payments"]),
        ({"team": "payments", "severity": "page", "tier": "1"}, ["payments", "pager"]),
        ({"team": "web", "severity": "page", "tier": "2"}, ["pager"]),
        ({"team": "web", "severity": "page", "tier": "3"}, ["everybody"]),
        ({"severity": "page"}, ["everybody"]),
    ],
)
def test_an_alert_goes_to_all_that_match_and_else_to_those_that_ask_for_nothing(
    found: dict[str, Destination], labels: dict[str, str], taken_by: list[str]
) -> None:
    assert takers(found, labels) == taken_by


def test_what_no_destination_takes_is_known(found: dict[str, Destination]) -> None:
    assert destinations_of(found, {"team": "payments", "tier": "1"}) == (["payments", "pager"], [])
    assert destinations_of(found, {"team": "web"}) == (["everybody"], [])
    del found["everybody"]
    names, unrouted = destinations_of(found, {"tier": "1"})
    assert names == ["pager"]
    assert unrouted == list(dict.fromkeys(one.name for one in ALERTS if one.notified))


def test_no_stream_can_have_a_label_that_its_alerts_and_metrics_have_already() -> None:
    of_alerts = {label for alert in ALERTS for label in alert.labels} | {"alertname", "severity"}
    assert of_alerts | set(LABELS["tidemark_stream_info"]) | {"cluster", "namespace"} == RESERVED_LABELS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a", "it is not TOML"),
        ("a = 1", "destination 'a': give each destination a table of its own"),
        ("[a]\nmatch = {team = 'x'}", "destination 'a': give each destination a table of its own"),
        ("['a b']\nwebhook = 'http://x'", "destination 'a b': it must match ^[A-Za-z0-9._-]"),
        ("[a]\nwebhook = 'ftp://x'", "destination 'a'.webhook: give an address that begins with http://"),
        ("[a]\nwebhook = 'http://x'\nto = 'y'", "destination 'a'.to: there is no such field"),
        (
            "[a]\nwebhook = 'http://x'\nmatch = {team = []}",
            "destination 'a'.match: it must have at least 1 entry, not 0",
        ),
        (
            "[a]\nwebhook = 'http://x'\nmatch = {team = 1}",
            "destination 'a'.match: it must be a list",
        ),
        ("[a]\nwebhook = 'http://x'\nmatch = {'a-b' = 'x'}", "destination 'a'.match: it must match"),
        (
            "[a]\nwebhook = 'http://x'\nmatch = {severity = 'pages'}",
            "destination 'a': no alert has the severity 'pages'; there are page, ticket",
        ),
        (
            "[a]\nwebhook = 'http://x'\nmatch = {alertname = 'TidemarkStoreDown'}",
            "destination 'a': no alert has the alertname 'TidemarkStoreDown'; there are Tidemark",
        ),
    ],
)
def test_a_mistake_is_named_with_the_setting_the_file_and_the_destination_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    file = tmp_path / "destinations.toml"
    file.write_text(text)
    monkeypatch.setenv("TIDEMARK_NOTIFY_FILE", str(file))
    with pytest.raises(ConfigurationError) as raised:
        load_settings()
    assert str(raised.value).startswith(f"TIDEMARK_NOTIFY_FILE is '{file}': ")
    assert problem in str(raised.value)


def test_the_webhook_that_is_set_by_itself_has_its_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "destinations.toml"
    file.write_text("[default]\nwebhook = 'http://x'\n")
    monkeypatch.setenv("TIDEMARK_NOTIFY_FILE", str(file))
    load_settings()
    monkeypatch.setenv("TIDEMARK_NOTIFY_URL", "http://y")
    with pytest.raises(ConfigurationError, match="the destination 'default' in notify_file"):
        load_settings()
