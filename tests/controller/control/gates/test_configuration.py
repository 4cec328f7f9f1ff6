"""The file of outside gates: what it holds, and how a mistake in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.controller.base.operator_file import PrometheusGate, WebhookGate, read_gates
from tidemark.controller.base.settings import ConfigurationError, load_settings

from support.controller_app import Controller
from support.tokens import make_token

FILE = """
[calendar]
webhook = "https://change.example.org/tidemark"
token_file = "/run/secrets/calendar"

[errors]
prometheus = "http://prometheus:9090"
query = 'sum(rate(errors_total{app={{job}}}[5m]))'
max = 0.01
"""


def test_a_gate_is_a_webhook_or_a_query_with_limits(tmp_path: Path) -> None:
    file = tmp_path / "gates.toml"
    file.write_text(FILE)
    found = read_gates(file)
    assert list(found) == ["calendar", "errors"]
    calendar, errors = found.values()
    assert isinstance(calendar, WebhookGate)
    assert calendar.token_file == Path("/run/secrets/calendar")
    assert isinstance(errors, PrometheusGate)
    assert (errors.min, errors.max, errors.token_file) == (None, 0.01, None)
    assert read_gates(None) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a", "it is not TOML"),
        ("a = 1", "gate 'a': give each gate a table of its own"),
        ("[a]\nmax = 1", "gate 'a': give each gate a table of its own"),
        ("[a]\nwebhook = 'http://x'\nprometheus = 'http://x'", "gate 'a': give each gate a table of its own"),
        ("['a b']\nwebhook = 'http://x'", "gate 'a b': it must match ^[A-Za-z0-9._-]"),
        ("[a]\nwebhook = 'file:///etc/passwd'", "gate 'a'.webhook: give an address that begins with http://"),
        ("[a]\nwebhook = 'http://x'\nurl = 'http://x'", "gate 'a'.url: there is no such field"),
        ("[a]\nprometheus = 'http://x'\nmax = 1", "gate 'a'.query: it is missing"),
        ("[a]\nprometheus = 'http://x'\nquery = 'up'", "gate 'a': give min or max"),
        ("[a]\nprometheus = 'http://x'\nquery = 'up'\nmax = nan", "gate 'a'.max: it must be a finite number"),
        (
            "[a]\nprometheus = 'http://x'\nquery = 'up'\nmin = 2\nmax = 1",
            "gate 'a': min 2.0 is above max 1.0",
        ),
    ],
)
def test_a_mistake_is_named_with_the_setting_the_file_and_the_gate_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    file = tmp_path / "gates.toml"
    file.write_text(text)
    monkeypatch.setenv("TIDEMARK_GATES_FILE", str(file))
    with pytest.raises(ConfigurationError) as raised:
        load_settings()
    assert str(raised.value).startswith(f"TIDEMARK_GATES_FILE is '{file}': ")
    assert problem in str(raised.value)


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_GATES_FILE", "nowhere.toml")
    with pytest.raises(ConfigurationError, match=r"'nowhere\.toml': it cannot be read: No such file"):
        load_settings()


def test_the_gates_are_listed_with_what_they_ask_and_without_addresses(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "gates.toml"
    file.write_text(FILE + "min = 0.001\n")
    with Controller(database_url, gates_file=file) as controller:
        token = make_token(controller, "viewer", "shop*")
        answer = controller.http.get("/v1/gates", headers={"Authorization": f"Bearer {token}"})
        reporter = make_token(controller, "job")
        refused = controller.http.get("/v1/gates", headers={"Authorization": f"Bearer {reporter}"})
    assert answer.json() == {
        "gates": [
            {
                "name": "calendar",
                "kind": "webhook",
                "asks": "whether it answers the rollout with an HTTP status of 200 to 299",
            },
            {
                "name": "errors",
                "kind": "prometheus",
                "asks": "whether sum(rate(errors_total{app={{job}}}[5m])) is at least 0.001 and at most 0.01",
            },
        ]
    }
    assert refused.status_code == 403
