"""The compose file: valid by the reference implementation, closed to others, and in step with what it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tidemark.controller.base.settings import Settings, load_settings
from tidemark.controller.base.token_format import role_of
from tidemark.controller.server.access.token_store import read_first_tokens

from support.compose import COMPOSE, command_of, compose_file, normalised
from support.controller_app import Controller
from support.served import served
from support.tokens import make_token
from support.tree import ROOT

SERVICES = compose_file()["services"]
SECRETS = [name for name in compose_file()["volumes"] if name.endswith("-secrets")]


def program(name: str) -> str:
    """Return the program's path; the test is skipped where there is none, but never in CI."""
    found = shutil.which(name)
    if found is None:
        assert os.environ.get("CI") != "true", f"CI has no {name}: `make services` installs it"
        pytest.skip(f"there is no {name} here; `make services` installs it")
    return found


def check(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def volumes(service: str) -> list[tuple[str, str, bool]]:
    """Return (source, target, whether it is read-only) of what a service mounts."""
    mounted = [volume.split(":") for volume in SERVICES[service].get("volumes", [])]
    return [(parts[0], parts[1], parts[2:] == ["ro"]) for parts in mounted]


def test_compose_takes_the_file() -> None:
    done = normalised()
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == set(SERVICES)


@pytest.mark.parametrize(
    ("right", "wrong"), [("service_healthy", "service_well"), ("restart: unless-stopped", "restarts: always")]
)
def test_compose_refuses_a_planted_fault(tmp_path: Path, right: str, wrong: str) -> None:
    text = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "compose.yaml").write_text(text.replace(right, wrong, 1), encoding="utf-8")
    assert normalised(tmp_path / "compose.yaml").returncode != 0


def test_every_volume_is_declared_and_used() -> None:
    used = {source for service in SERVICES for source, _, _ in volumes(service) if not source.startswith(".")}
    assert used == set(compose_file()["volumes"])


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_open_to_this_machine_alone(service: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", []))


@pytest.mark.parametrize("service", SERVICES)
def test_every_image_is_pinned_or_built_here(service: str) -> None:
    found = SERVICES[service]
    if "build" in found:
        assert (COMPOSE / found["build"]["context"]).resolve() == ROOT
        assert (ROOT / found["build"].get("dockerfile", "Dockerfile")).is_file()
    else:
        assert re.fullmatch(r"[a-z/]+:v?\d+(\.\d+)+(-\w+)?(@sha256:[0-9a-f]{64})?", found["image"])


@pytest.mark.parametrize("service", SERVICES)
def test_what_a_service_mounts_from_the_tree_is_there_and_is_not_written(service: str) -> None:
    for source, target, read_only in volumes(service):
        if source.startswith("."):
            assert (COMPOSE / source).resolve().exists(), f"{service} mounts {source}, which is not there"
            assert read_only, f"{service} could write to {source} at {target}"


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_waited_for_can_come(service: str) -> None:
    for name, body in SERVICES[service].get("depends_on", {}).items():
        other = SERVICES[name]
        if body["condition"] == "service_healthy":
            # The controller's own check is in its image.
            assert "healthcheck" in other or other.get("build", {}) == {"context": "../.."}
        else:
            assert body["condition"] == "service_completed_successfully"
            assert "restart" not in other


def test_secrets_are_in_no_file_and_each_is_mounted_by_those_alone_who_need_it() -> None:
    readers = {
        volume: {
            service: read_only
            for service in SERVICES
            for source, _, read_only in volumes(service)
            if source == volume and service != "secrets"
        }
        for volume in SECRETS
    }
    assert readers == {
        "controller-secrets": {"controller": True, "slo": True},
        "postgres-secrets": {"postgres": True},
        "prometheus-secrets": {"prometheus": True},
        "grafana-secrets": {"grafana": True},
        "job-secrets": {"job": True},
    }
    given = [
        f"{service}: {name}"
        for service, found in SERVICES.items()
        for name in found.get("environment", {})
        if re.search("PASSWORD|TOKEN|SECRET", name) and not name.endswith(("_FILE", "TIDEMARK_FIRST_TOKENS"))
    ]
    assert given == []


def made_secrets(folder: Path) -> dict[str, str]:
    """Run the script that makes the secrets, and return each file by its path."""
    own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", COMPOSE / "secrets.sh", folder],
        env={**os.environ, "PATH": own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8").strip()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_secrets_are_made_once_and_fit_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_secrets(tmp_path / "s")
    assert made == made_secrets(tmp_path / "s")
    assert {folder.name for folder in (tmp_path / "s").iterdir()} == {
        name.removesuffix("-secrets") for name in SECRETS
    }
    tokens = read_first_tokens(tmp_path / "s" / "controller" / "tokens")
    assert [(token.name, token.grant.role) for token, _ in tokens] == [
        ("admin", "admin"),
        ("demo", "job"),
        ("prometheus", "viewer"),
    ]
    assert made["prometheus/token"] == made["controller/tokens/prometheus"]
    assert made["job/token"] == made["controller/tokens/demo"]
    assert role_of(made["job/token"]) == "job"
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TIDEMARK_{name.upper()}", raising=False)
    found = load_settings(file=tmp_path / "s" / "controller" / "tidemark.toml").settings
    password = made["postgres/password"]
    database = SERVICES["postgres"]["environment"]
    assert found.database_url == (
        f"postgresql+psycopg://{database['POSTGRES_USER']}:{password}@postgres/{database['POSTGRES_DB']}"
    )
    assert len(password) >= 40
    assert made["grafana/password"] != password
    assert made_secrets(tmp_path / "other")["postgres/password"] != password


@pytest.mark.slow
def test_secrets_are_for_their_readers_alone(tmp_path: Path) -> None:
    made_secrets(tmp_path / "s")
    assert [
        path for path in (tmp_path / "s").rglob("*") if path.is_file() and path.stat().st_mode & 0o077
    ] == []


@pytest.mark.slow
def test_a_start_that_was_cut_off_is_taken_up_again(tmp_path: Path) -> None:
    made = made_secrets(tmp_path / "s")
    (tmp_path / "s" / "controller" / "tidemark.toml").unlink()
    (tmp_path / "s" / "grafana" / "password").write_text("")
    again = made_secrets(tmp_path / "s")
    assert again["grafana/password"] != made["grafana/password"]
    assert {**again, "grafana/password": ""} == {**made, "grafana/password": ""}


def test_the_environment_of_the_controller_is_settings_of_its_own() -> None:
    names = {name.removeprefix("TIDEMARK_").lower() for name in SERVICES["controller"]["environment"]}
    assert names - {"config"} <= set(Settings.model_fields)


@pytest.mark.slow
def test_the_objectives_are_set_by_its_own_commands(tmp_path: Path) -> None:
    with Controller(f"sqlite:///{tmp_path / 't.db'}") as controller, served(controller.app) as url:
        admin = tmp_path / "admin"
        admin.write_text(make_token(controller))
        line = command_of("slo").replace("/run/tidemark/tokens/admin", str(admin))
        own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for _ in range(2):
            done = subprocess.run(
                ["sh", "-ec", line],
                env={"PATH": own, "TIDEMARK_URL": url},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        headers = {"Authorization": f"Bearer {admin.read_text()}"}
        asked = {
            name: controller.http.get(f"/v1/jobs/demo/streams/events/{name}", headers=headers).json()
            for name in ("slo", "policy")
        }
        assert (asked["slo"]["target_ppm"], asked["policy"]["mode"]) == (995_000, "Restart")


def test_promtool_and_amtool_take_what_they_are_given() -> None:
    check(program("promtool"), "check", "config", "--syntax-only", COMPOSE / "prometheus.yml")
    check(program("amtool"), "check-config", COMPOSE / "alertmanager.yml")


def test_prometheus_finds_its_rules_its_token_and_the_controller() -> None:
    config = yaml.safe_load((COMPOSE / "prometheus.yml").read_text(encoding="utf-8"))
    targets = {target: source for source, target, _ in volumes("prometheus")}
    (rules,) = config["rule_files"]
    assert list((COMPOSE / targets[str(Path(rules).parent)]).resolve().glob(Path(rules).name))
    (scraped,) = config["scrape_configs"]
    token = Path(scraped["authorization"]["credentials_file"])
    assert (targets[str(token.parent)], token.name) == ("prometheus-secrets", "token")
    ((where,),) = (one["targets"] for one in scraped["static_configs"])
    host, port = where.split(":")
    assert host in SERVICES
    assert f"127.0.0.1:{port}:{port}" in SERVICES[host]["ports"]
