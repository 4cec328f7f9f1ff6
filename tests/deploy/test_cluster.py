"""What a real Kubernetes API takes of the chart and of the plain manifests, by its own admission and authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tidemark.controller.tools.cli import app

from support.chart import CHART, EVERYTHING, MANIFESTS, rendered
from support.cluster import Cluster, running_cluster
from support.cluster_programs import EACH_VERSION
from support.patience import until
from support.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

OPERATOR = ROOT / "deploy" / "examples" / "spark-operator" / "spark-application.yaml"
SERVER = ("--filename", "-", "--server-side", "--validate=strict")

VALUES = {
    "defaults": ("--api-versions", "v1/Secret"),
    "everything": EVERYTHING,
    "tokens of a seed": ("--set", f"tokens.seed={'s' * 32}"),
}

SECRETS = {
    "tidemark-tokens": {"admin": "tdm_admin_...", "prometheus": "tdm_viewer_..."},
    "tidemark-database": {"url": "postgresql://tidemark@postgres/tidemark"},
}
"""The Secrets that the plain manifests expect."""


@pytest.fixture(scope="module", params=EACH_VERSION)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), request.param) as running:
        running.define()
        yield running


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return an empty namespace, `tidemark` unless the test is given another name, that enforces the standard."""
    name = cluster.namespace(getattr(request, "param", "tidemark"))
    yield name
    cluster.done("delete", "namespace", name)


def make_secrets(cluster: Cluster, namespace: str) -> None:
    for name, content in SECRETS.items():
        words = [f"--from-literal={key}={text}" for key, text in content.items()]
        cluster.done("create", "secret", "generic", name, "--namespace", namespace, *words)


def left(cluster: Cluster, namespace: str) -> set[str]:
    """Return what of the chart's is in a namespace, as kind/name."""
    kinds = "deploy,rs,pods,jobs,svc,cm,secrets,sa,pvc,pdb,netpol,ing,servicemonitors,prometheusrules"
    found = cluster.done("get", kinds, "--namespace", namespace, "--output", "name", "--ignore-not-found")
    return {name for name in found.split() if "tidemark" in name}


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return [pod for pod in cluster.objects("pods", namespace) if "deletionTimestamp" not in pod["metadata"]]


@pytest.mark.parametrize("options", VALUES.values(), ids=VALUES)
@pytest.mark.usefixtures("namespace")
def test_every_rendering_is_taken_without_a_warning(cluster: Cluster, options: tuple[str, ...]) -> None:
    text = rendered("--kube-version", cluster.version, *options)
    applied = cluster.done("apply", *SERVER, "--dry-run=server", given=text)
    assert applied.count("serverside-applied") == text.count("\nkind: ")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("revisionHistoryLimit", "revisionHistoryLimits", "field not declared in schema"),
        ("interval: 15s", "interval: soon", "spec.endpoints[0].interval"),
        ("runAsNonRoot: true", "runAsNonRoot: false", "would violate PodSecurity"),
        ("policy/v1", "policy/v1beta1", "no matches for kind"),
    ],
)
@pytest.mark.usefixtures("namespace")
def test_a_planted_fault_is_refused_or_warned_of(cluster: Cluster, right: str, wrong: str, said: str) -> None:
    text = rendered(*EVERYTHING)
    assert right in text
    ended = cluster.kubectl("apply", *SERVER, "--dry-run=server", given=text.replace(right, wrong))
    assert said in ended.stderr


@pytest.mark.parametrize("name", ["one", "replicas"])
def test_plain_manifests_are_applied_admitted_at_the_restricted_level_and_removed_without_a_trace(
    cluster: Cluster, namespace: str, name: str
) -> None:
    make_secrets(cluster, namespace)
    before = left(cluster, namespace)
    path = MANIFESTS / f"{name}.yaml"
    cluster.done("apply", "--validate=strict", "--filename", path)
    (deployment,) = cluster.objects("deployments", namespace)
    # The controller of Deployments makes pods only where admission takes them.
    made = until(
        lambda: len(found := pods(cluster, namespace)) == deployment["spec"]["replicas"] and found, "the pods"
    )
    for pod in made:
        assert not [
            volume for volume in pod["spec"]["volumes"] if "projected" in volume
        ]  # no token of the API's
    assert cluster.done("diff", "--filename", path) == ""
    cluster.done("apply", "--validate=strict", "--filename", path)
    (again,) = cluster.objects("deployments", namespace)
    assert again["metadata"]["generation"] == deployment["metadata"]["generation"]
    cluster.done("delete", "--filename", path)
    until(lambda: left(cluster, namespace) == before, "the end", seen=partial(left, cluster, namespace))


def test_a_pod_that_is_not_restricted_is_refused(cluster: Cluster, namespace: str) -> None:
    make_secrets(cluster, namespace)
    text = (MANIFESTS / "one.yaml").read_text(encoding="utf-8")
    ended = cluster.kubectl("apply", "--filename", "-", given=text.replace("drop: [ALL]", "drop: []"))
    assert ended.returncode == 0

    def refusals() -> str:
        (deployment,) = cluster.objects("deployments", namespace)
        return " ".join(one["message"] for one in deployment.get("status", {}).get("conditions", []))

    until(lambda: 'violates PodSecurity "restricted:latest"' in refusals(), "a refusal", seen=refusals)
    assert pods(cluster, namespace) == []


@pytest.mark.parametrize("namespace", ["ops"], indirect=True)
def test_who_has_only_a_namespace_installs_upgrades_rolls_back_and_removes_a_release(
    cluster: Cluster, namespace: str
) -> None:
    cluster.done("create", "serviceaccount", "installer", "--namespace", namespace)
    account = f"--serviceaccount={namespace}:installer"
    cluster.done(
        "create", "rolebinding", "installer", "--clusterrole=admin", account, "--namespace", namespace
    )

    def helm(*words: str | Path) -> str:
        ended = cluster.helm(
            *words, "--namespace", namespace, "--kube-as-user", f"system:serviceaccount:{namespace}:installer"
        )
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
        return ended.stdout

    def state() -> tuple[Any, Any, Any]:
        (deployment,) = cluster.objects("deployments", namespace)
        secrets = {
            secret["metadata"]["name"]: secret["data"] for secret in cluster.objects("secrets", namespace)
        }
        (settings,) = (
            each["data"]
            for each in cluster.objects("cm", namespace)
            if each["metadata"]["name"] == "tidemark"
        )
        return deployment["spec"], secrets["tidemark-tokens"], settings

    assert f"kubectl -n {namespace} get secret tidemark-tokens" in helm("install", "tidemark", CHART)
    first = state()
    helm("upgrade", "tidemark", CHART, "--set", "settings.tick_seconds=2", "--set", "podLabels.team=shop")
    second = state()
    assert second[2] == {**first[2], "TIDEMARK_TICK_SECONDS": "2"}
    assert second[0]["template"] != first[0]["template"]
    assert second[1] == first[1]
    helm("rollback", "tidemark", "1")
    assert state() == first
    assert [json.loads(helm("history", "tidemark", "--output", "json"))[-1]["revision"]] == [3]
    kept = helm("uninstall", "tidemark")
    assert "[Secret] tidemark-tokens" in kept
    assert "[PersistentVolumeClaim] tidemark" in kept
    remains = {"persistentvolumeclaim/tidemark", "secret/tidemark-tokens"}
    until(lambda: left(cluster, namespace) == remains, "the end", seen=partial(left, cluster, namespace))
    # What was kept is taken over by the next release of that name.
    helm("install", "tidemark", CHART)
    assert state()[1] == first[1]


@pytest.mark.parametrize("namespace", ["rights"], indirect=True)
def test_the_account_of_the_pods_has_no_right_that_not_every_account_has(
    cluster: Cluster, namespace: str
) -> None:
    assert cluster.helm("install", "tidemark", CHART, "--namespace", namespace).returncode == 0

    def rights(account: str) -> str:
        who = f"system:serviceaccount:{namespace}:{account}"
        return cluster.done("auth", "can-i", "--list", "--as", who, "--namespace", namespace)

    assert rights("tidemark") == rights("default")
    who = f"system:serviceaccount:{namespace}:tidemark"
    for verb, what in (("get", "secrets"), ("create", "pods"), ("*", "*.*"), ("create", "tokenreviews")):
        for where in (("--namespace", namespace), ("--all-namespaces",)):
            asked = cluster.kubectl("auth", "can-i", verb, what, "--as", who, *where)
            assert asked.stdout.strip() == "no"
    found = cluster.done("get", "roles,rolebindings", "--namespace", namespace, "--output", "name")
    bound = cluster.done("get", "clusterroles,clusterrolebindings", "--output", "name")
    assert (found, "tidemark" in bound) == ("", False)


@pytest.mark.parametrize("namespace", ["jobs"], indirect=True)
def test_the_spark_operators_definition_takes_the_example_and_the_conf_of_a_fleet(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.done("apply", "--validate=strict", "--filename", OPERATOR)
    words = ["--for", "operator", "--jar", "/opt/tidemark.jar", "--python", "/opt/python"]
    conf = CliRunner().invoke(app, ["spark-conf", *words, "--conf", "spark.tidemark.mode=Live"])
    assert conf.exit_code == 0, conf.output
    (tmp_path / "conf.yaml").write_text(conf.stdout, encoding="utf-8")
    patch = ("--type=merge", "--patch-file", tmp_path / "conf.yaml")
    cluster.done("patch", "sparkapplication", "shop-clicks", "--namespace", namespace, *patch)
    (job,) = cluster.objects("sparkapplications", namespace)
    assert job["spec"]["deps"]["jars"] == ["/opt/tidemark.jar"]
    settings = job["spec"]["sparkConf"]
    assert (settings["spark.tidemark.mode"], settings["spark.tidemark.job"]) == ("Live", "shop")
