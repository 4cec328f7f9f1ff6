"""The Helm chart and the plain manifests: valid, restricted, whole, and in step with the controller."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tidemark.controller.base.settings import Settings, load_settings
from tidemark.controller.base.token_format import role_of
from tidemark.controller.server.http.authorize import need_of
from tidemark.controller.tools.cli import app, distribution_version
from tidemark.controller.tools.cli.serve import SHUTDOWN_SECONDS

from support.chart import (
    CHART,
    EVERYTHING,
    EXAMPLE,
    MANIFESTS,
    helm,
    kinds,
    manifest,
    parsed,
    rendered,
    schema,
)
from support.controller_app import Controller
from support.go_tools import KUBERNETES, crds, go_tool
from support.image import read_dockerfile, stages_of
from support.served import served
from support.tokens import make_token
from support.tree import ROOT

IN_A_CLUSTER = ("--api-versions", "v1/Secret")
"""Without a cluster `helm template` knows only its versions; a cluster names its kinds too."""

VALUES = {
    "defaults": IN_A_CLUSTER,
    "everything": (*EVERYTHING, *IN_A_CLUSTER),
    "own tokens": ("--set", "tokens.existingSecret=t"),
}


def validated(text: str, folder: Path) -> None:
    """Hold manifests against the schemas of Kubernetes and of the Prometheus operator."""
    path = folder / "manifests.yaml"
    path.write_text(text, encoding="utf-8")
    version = KUBERNETES.rpartition(".")[0]
    command: list[str | Path] = [
        go_tool("kubectl-validate"),
        path,
        "--version",
        version,
        "--local-crds",
        crds("prometheus-operator"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("options", VALUES.values(), ids=VALUES)
def test_what_is_rendered_is_valid_for_kubernetes_and_the_prometheus_operator(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    validated(rendered(*options), tmp_path)


@pytest.mark.slow
def test_the_validator_finds_a_planted_fault(tmp_path: Path) -> None:
    text = rendered(*EVERYTHING)
    for right, wrong in (
        ("revisionHistoryLimit", "revisionHistoryLimits"),
        ("interval: 15s", "interval: soon"),
    ):
        assert right in text
        with pytest.raises(AssertionError):
            validated(text.replace(right, wrong), tmp_path)


def test_helm_finds_nothing_to_complain_of() -> None:
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 chart(s) failed" in done.stdout


def test_the_plain_manifests_are_renderings_of_the_chart(tmp_path: Path) -> None:
    values = sorted(MANIFESTS.glob("*.values.yaml"))
    assert {path.name.replace(".values", "") for path in values} | {path.name for path in values} == {
        path.name for path in MANIFESTS.iterdir()
    }
    for path in values:
        plain = path.with_name(path.name.replace(".values", "")).read_text(encoding="utf-8")
        assert plain == manifest(path), "the chart has changed: run `make manifests`"
        assert "helm" not in plain.lower().split("\n", 1)[1]
        validated(plain, tmp_path)


def test_the_settings_of_the_values_are_those_of_the_controller() -> None:
    held = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert held == schema(), "the settings have changed: run `make manifests`"


def test_every_value_is_in_the_schema_and_the_other_way_round() -> None:
    def names(values: dict[str, Any]) -> Any:
        return {
            name: names(value) if isinstance(value, dict) and value else None
            for name, value in values.items()
        }

    def allowed(part: dict[str, Any]) -> Any:
        return {
            name: allowed(value) if value.get("properties") else None
            for name, value in part["properties"].items()
            if name != "global"
        }

    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    body = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    found, expected = names(values), allowed(body)
    assert found.pop("settings").keys() <= expected.pop("settings").keys()
    found["resources"] = found["dashboards"]["labels"] = None
    assert found == expected


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (("replicaCount=2",), "replicaCount is 2, and replicas share the store: set database.existingSecret"),
        (("terminationGracePeriodSeconds=15",), "it must be above settings.drain_seconds + 10"),
        (("settings.drain_seconds=30",), "it must be above settings.drain_seconds + 10"),
        (("ingress.enabled=true",), "ingress.enabled needs ingress.host"),
        (("settings.tick_second=1",), "tick_second"),
        (("settings.database_url=x",), "database_url"),
        (("settings.tick_seconds=soon",), "tick_seconds"),
        (("settings.log_level=loud",), "log_level"),
        (("image.digest=latest",), "digest"),
        (("replicas=2",), "replicas"),
        (("tokens.prometheusKey=admin",), "prometheusKey"),
        (("tokens.seed=short",), "seed"),
        (("specifications.files.README=x",), "README"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(options: tuple[str, ...], body: str) -> None:
    given = [word for option in options for word in ("--set", option)]
    done = helm("template", "tidemark", CHART, *given)
    assert done.returncode != 0
    assert body in done.stderr


def test_the_grace_of_a_pod_outlasts_the_longest_end_of_the_controller() -> None:
    found = kinds(rendered())
    grace = pod(found["Deployment"])["terminationGracePeriodSeconds"]
    assert grace > float(found["ConfigMap"]["data"]["TIDEMARK_DRAIN_SECONDS"]) + SHUTDOWN_SECONDS
    # The chart refuses by the same number.
    assert SHUTDOWN_SECONDS == 10


def environment(*options: str | Path) -> dict[str, str]:
    """Return the environment of the controller: the image's, then what the pod sets."""
    found = kinds(rendered(*options))
    (container,) = pod(found["Deployment"])["containers"]
    (source,) = container["envFrom"]
    assert source["configMapRef"]["name"] == found["ConfigMap"]["metadata"]["name"]
    (image,) = (
        step.text for step in stages_of(read_dockerfile(ROOT / "Dockerfile"))[-1][1] if step.name == "ENV"
    )
    set_here = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    return {**dict(re.findall(r"(\w+)=(\S+)", image)), **found["ConfigMap"]["data"], **set_here}


def test_the_controller_understands_the_settings_that_it_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "max_streams": 12_345_678,
        "tick_seconds": 2.5,
        "metrics_open": True,
        "proxy_user_header": "X-User",
        "proxy_addresses": "10.0.0.0/8,::1",
        "proxy_roles": "*=viewer",
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"settings": given}), encoding="utf-8")
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TIDEMARK_{name.upper()}", raising=False)
    for variable, text in environment("--values", tmp_path / "values.yaml").items():
        if variable.startswith("TIDEMARK_"):
            monkeypatch.setenv(variable, text)
    settings = load_settings().settings
    assert {name: getattr(settings, name) for name in given} == given
    assert (settings.host, settings.port, settings.log_format) == ("0.0.0.0", 8642, "json")
    assert settings.first_tokens == Path("/run/tidemark/first-tokens")
    assert settings.database_url == "sqlite:////var/lib/tidemark/tidemark.db"


def test_the_first_tokens_are_whole_tokens_in_a_secret_that_is_mounted_where_they_are_looked_for() -> None:
    found = kinds(rendered(*IN_A_CLUSTER))
    secret = found["Secret"]
    tokens = {name: b64decode(value).decode() for name, value in secret["data"].items()}
    assert {name: role_of(token) for name, token in tokens.items()} == {
        "admin": "admin",
        "prometheus": "viewer",
    }
    assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    volumes = {volume["name"]: volume for volume in pod(found["Deployment"])["volumes"]}
    (container,) = pod(found["Deployment"])["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    mounted = volumes[mounts["/run/tidemark/first-tokens"]]["secret"]
    assert mounted["secretName"] == secret["metadata"]["name"]
    again = kinds(rendered(*IN_A_CLUSTER))["Secret"]["data"]["admin"]
    assert b64decode(again).decode() != tokens["admin"]


def test_tokens_do_not_change_where_the_cluster_is_not_seen() -> None:
    assert "Secret" not in kinds(rendered())
    seeds = ["a secret text of 32 characters...", "another text of some 32 characters"]
    first, again, other = (
        kinds(rendered("--set", f"tokens.seed={seed}"))["Secret"]["data"] for seed in [*seeds[:1], *seeds]
    )
    assert first == again
    assert {name: role_of(b64decode(token).decode()) for name, token in first.items()} == {
        "admin": "admin",
        "prometheus": "viewer",
    }
    assert not set(first.values()) & set(other.values())


def test_tokens_that_the_cluster_has_are_kept(tmp_path: Path) -> None:
    """A copy of the chart has what the cluster would answer in place of the question."""
    copy = shutil.copytree(CHART, tmp_path / "tidemark")
    template = copy / "templates" / "tokens.yaml"
    text = template.read_text(encoding="utf-8")
    held = '(dict "data" (dict "admin" "b25l" "prometheus" "b3RoZXI="))'
    asked, number = re.subn(r'\(lookup "v1" "Secret" [^\n]*?\)\)', held, text)
    assert number == 1
    template.write_text(asked, encoding="utf-8")
    done = helm("template", "tidemark", copy, *IN_A_CLUSTER, "--show-only", "templates/tokens.yaml")
    assert yaml.safe_load(done.stdout)["data"] == {"admin": "b25l", "prometheus": "b3RoZXI="}


def test_prometheus_shows_a_token_of_the_same_secret() -> None:
    for options in (
        EVERYTHING,
        (*EVERYTHING, "--set", "tokens.existingSecret=mine", "--set", "tokens.prometheusKey=scraper"),
    ):
        found = kinds(rendered(*options, *IN_A_CLUSTER, "--skip-tests"))
        (endpoint,) = found["ServiceMonitor"]["spec"]["endpoints"]
        shown = endpoint["authorization"]["credentials"]
        if "Secret" in found:
            assert shown["name"] == found["Secret"]["metadata"]["name"]
            assert shown["key"] in found["Secret"]["data"]
        else:
            assert shown == {"name": "mine", "key": "scraper"}


def test_pods_are_restricted_and_write_only_to_volumes() -> None:
    for options in VALUES.values():
        documents = [one for one in parsed(rendered(*options)) if one]
        pods = [
            one["spec"] if one["kind"] == "Pod" else one["spec"]["template"]["spec"]
            for one in documents
            if one["kind"] in {"Deployment", "Job", "Pod"}
        ]
        assert len(pods) == (3 if "specifications.prune=true" in options else 2)
        for one in pods:
            assert one["securityContext"]["runAsNonRoot"] is True
            assert one["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert one["automountServiceAccountToken"] is False
            assert one["enableServiceLinks"] is False
            for container in one["containers"]:
                assert container["securityContext"] == {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                }


def test_the_user_port_and_state_are_those_of_the_image() -> None:
    image = {step.name: step.text for step in read_dockerfile(ROOT / "Dockerfile")}
    found = pod(kinds(rendered())["Deployment"])
    assert str(found["securityContext"]["runAsUser"]) == image["USER"]
    (container,) = found["containers"]
    assert str(container["ports"][0]["containerPort"]) == image["EXPOSE"]
    assert image["VOLUME"] in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_probes_ask_what_needs_no_token() -> None:
    (container,) = pod(kinds(rendered())["Deployment"])["containers"]
    paths = {
        name: container[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    interface = json.loads((ROOT / "controller" / "openapi.json").read_text(encoding="utf-8"))["paths"]
    assert [need_of(interface[path]["get"]["operationId"]) for path in paths.values()] == [None] * 3


def test_a_sqlite_file_has_one_process_at_a_time_and_replicas_are_replaced_one_by_one() -> None:
    one, several = kinds(rendered()), kinds(rendered(*EVERYTHING, "--skip-tests"))
    assert one["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert "PersistentVolumeClaim" in one
    assert several["Deployment"]["spec"]["strategy"]["type"] == "RollingUpdate"
    assert "PersistentVolumeClaim" not in several
    assert several["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    (spread,) = pod(several["Deployment"])["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= (
        several["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_policy_lets_in_who_is_named_and_out_only_to_names_and_the_database() -> None:
    closed, opened = (
        kinds(rendered())["NetworkPolicy"],
        kinds(rendered(*EVERYTHING, "--skip-tests"))["NetworkPolicy"],
    )
    assert closed["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"][0]["port"] for rule in closed["spec"]["egress"]] == [53]
    assert [rule["ports"][0]["port"] for rule in opened["spec"]["egress"]] == [53, 5432]
    assert opened["spec"]["egress"][1]["to"] == [{"podSelector": {"matchLabels": {"app": "postgres"}}}]


def test_pods_that_call_the_controller_are_let_in_and_not_taken_for_it() -> None:
    found = kinds(rendered(*EVERYTHING))
    labels = [
        found["Job"]["spec"]["template"]["metadata"]["labels"],
        found["Pod"]["metadata"]["labels"],
    ]
    (rule,) = found["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"] == [
        {"podSelector": {"matchLabels": {"app": "spark"}}},
        {"podSelector": {"matchLabels": labels[0]}},
    ]
    for selector in (
        found["Service"]["spec"]["selector"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert [selector.items() <= one.items() for one in labels] == [False, False]


@pytest.mark.slow
def test_the_job_of_the_chart_applies_its_files(tmp_path: Path) -> None:
    found = kinds(rendered(*EVERYTHING))
    documents = found["ConfigMap/tidemark-specifications"]["data"]
    assert documents == {"shop.yaml": EXAMPLE.read_text(encoding="utf-8")}
    spec = pod(found["Job"])
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["specifications"]["configMap"]["name"] == "tidemark-specifications"
    assert volumes["token"]["secret"]["items"] == [{"key": "admin", "path": "token"}]
    (container,) = spec["containers"]
    program, *arguments = container["command"]
    for mount in container["volumeMounts"]:
        # The folders that Kubernetes would mount.
        arguments = [word.replace(mount["mountPath"], str(tmp_path / mount["name"])) for word in arguments]
    (tmp_path / "specifications").mkdir()
    for name, text in documents.items():
        (tmp_path / "specifications" / name).write_text(text, encoding="utf-8")
    (tmp_path / "token").mkdir()
    service = f"http://{found['Service']['metadata']['name']}:{found['Service']['spec']['ports'][0]['port']}"
    assert f"--url={service}" in arguments
    with (
        Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller,
        served(controller.app) as url,
    ):
        (tmp_path / "token" / "token").write_text(make_token(controller), encoding="utf-8")
        command = [word.replace(service, url) for word in arguments]
        first, second = (CliRunner().invoke(app, command) for _ in range(2))
    assert program == "tidemark"
    assert first.exit_code == 0, first.output
    assert first.stdout.splitlines()[-2:] == ["2 created, 0 unchanged", "next: tidemark doctor shop"]
    assert second.stdout == "2 unchanged\n"


def test_the_chart_has_the_version_of_the_distribution() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == distribution_version()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "kubectl -n ops get secret tidemark-tokens -o jsonpath='{.data.admin}'"),
        ((), "with one replica, which is down while its node is"),
        (("--set", "tokens.existingSecret=mine"), "is in the Secret mine."),
        ((), "Jobs of other namespaces are shut out"),
    ],
)
def test_the_notes_say_where_the_admins_token_is_and_who_is_shut_out(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    """Helm shows notes only where there is a cluster, so a copy of the chart has them in a manifest."""
    copy = shutil.copytree(CHART, tmp_path / "tidemark")
    notes = copy / "templates" / "NOTES.txt"
    (copy / "templates" / "_notes.tpl").write_text(
        f'{{{{ define "notes" }}}}{notes.read_text(encoding="utf-8")}{{{{ end }}}}', encoding="utf-8"
    )
    notes.unlink()
    (copy / "templates" / "notes.yaml").write_text(
        'notes: {{ include "notes" . | toJson }}\n', encoding="utf-8"
    )
    where = ("--namespace", "ops", "--show-only", "templates/notes.yaml")
    done = helm("template", "tidemark", copy, *where, *options)
    assert done.returncode == 0, done.stderr
    assert said in yaml.safe_load(done.stdout)["notes"]
