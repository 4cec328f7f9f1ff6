"""A real Kubernetes API as a trusted issuer: what a service account's token may do, and why others are refused."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from tidemark.controller.server.access.issuer_keys import PAUSE_SECONDS, READ_AGAIN_SECONDS
from tidemark.controller.server.http.authorize import OPERATIONS
from tidemark.spark_jobs.core.client import ControllerClient

from support.chart import CHART
from support.cluster import Cluster, running_cluster
from support.cluster_node import Node
from support.cluster_pod import Image
from support.cluster_programs import VERSIONS
from support.controller_app import Controller
from support.issuer import write_issuers
from support.patience import PATIENCE_S
from support.reports import exponential_batches, query_reports
from support.tokens import bearer
from support.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.soak]

NAMESPACE, JOBS, ACCOUNT = "tidemark", "jobs", "system:serviceaccount:jobs:shop"
DISCOVERY = "system:service-account-issuer-discovery"

_PAGE = (ROOT / "docs" / "how-to" / "access.md").read_text(encoding="utf-8")


def block(language: str, word: str) -> str:
    """Return the block of docs/how-to/access.md that has a word."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", _PAGE, re.DOTALL)
    (found,) = (text for text in blocks if word in text)
    return found


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), request.param) as running:
        for namespace, account in ((NAMESPACE, "watcher"), (JOBS, "shop"), ("bank", "shop")):
            running.namespace(namespace)
            running.done("create", "serviceaccount", account, "--namespace", namespace)
        yield running


def token(cluster: Cluster, namespace: str = JOBS, account: str = "shop", audience: str = "tidemark") -> str:
    words = ("--namespace", namespace, "--audience", audience)
    return cluster.done("create", "token", account, *words).strip()


def table(cluster: Cluster) -> dict[str, str]:
    """Return the page's table of an issuer, for this cluster."""
    found: dict[str, str] = tomllib.loads(block("toml", "[cluster]"))["cluster"]
    return {**found, "issuer": cluster.server.url}


def forbidden(http: httpx.Client, own: str) -> set[tuple[str, str]]:
    """Return what is refused to a token: the job that it is about, none for all, and the right that it needs."""
    found: set[tuple[str, str]] = set()
    paths = http.get("/openapi.json").json()["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            need = OPERATIONS[operation["operationId"]]
            for job in ("shop-clicks", "bank") if "{job}" in path else ("",):
                there = path.replace("{job}", job).replace("{stream}", "s")
                answer = http.request(method, re.sub(r"{\w+}", "9", there), headers=bearer(own))
                if answer.status_code == 403 and need is not None:
                    found.add((job, need.right))
    return found


def test_by_the_pages_recipe_the_chart_trusts_the_cluster_and_an_account_reaches_its_own_jobs(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = write_issuers(tmp_path, cluster=table(cluster))
    where = ("--namespace", NAMESPACE)
    cluster.done("create", "configmap", "tidemark-issuers", *where, f"--from-file={file}")
    values = tmp_path / "values.yaml"
    values.write_text(block("yaml", "tidemark-issuers"), encoding="utf-8")
    image = Image(default=("tidemark", "serve"))
    node = Node(cluster, tmp_path / "pods", NAMESPACE, {"tidemark:0.1.0": image})
    # Nobody binds a volume here.
    claim = ("--set", "database.sqlite.existingClaim=kept")
    with node.running("tidemark:8642"):
        installed = cluster.helm("install", "tidemark", CHART, *where, "--values", values, *claim, "--wait")
        assert installed.returncode == 0, installed.stderr + node.logs()
        url = node.services["http://tidemark:8642"]
        own = tmp_path / "token"
        own.write_text(token(cluster), encoding="utf-8")
        # What a driver sends, as it sends it.
        driver = ControllerClient(url, own)
        (report,) = query_reports(exponential_batches(1, 5), job="shop-clicks", stream="s")
        driver.report(report)
        assert driver.bound("shop-clicks", "s").mode == "Off"
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as http:
            beyond = {"Read", "Operate", "Administer"}
            assert forbidden(http, own.read_text()) == {
                *((job, right) for job in ("", "shop-clicks") for right in beyond),
                *(("bank", right) for right in (*beyond, "Ask", "Recall", "Report")),
            }
            path = "/v1/jobs/shop-clicks/streams/s/bound"
            of_another = http.get(path, headers=bearer(token(cluster, namespace="bank")))
            assert of_another.status_code == 403
            said = of_another.json()["detail"]
            assert "'cluster:system:serviceaccount:bank:shop' has the role none" in said
    assert cluster.helm("uninstall", "tidemark", *where).returncode == 0


def test_what_is_not_for_tidemark_too_old_or_of_a_withdrawn_key_is_refused_while_the_api_comes_and_goes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = SimpleNamespace(now_s=1_000.0)
    pods = tmp_path / "token"

    def renew() -> None:
        pods.write_text(token(cluster, NAMESPACE, "watcher", cluster.server.url), encoding="utf-8")

    renew()
    files = {"ca_file": str(cluster.server.authority), "token_file": str(pods)}
    file = write_issuers(tmp_path, cluster={**table(cluster), **files})

    def controller(name: str) -> Controller:
        store = f"sqlite:///{tmp_path / name}.db"
        return Controller(store, steady=lambda: steady.now_s, issuers_file=file)

    def said(of: Controller, shown: str) -> tuple[int, str]:
        answer = of.http.get("/v1/caller?job=shop-1", headers=bearer(shown))
        return answer.status_code, answer.json().get("detail") or answer.json()["name"]

    accepted = (200, f"cluster:{ACCOUNT}")
    own = token(cluster)
    refused = "the token is not valid: "
    away = "the keys of the issuer 'cluster' cannot be read: "
    with controller("first") as first:
        assert said(first, own) == accepted
        elsewhere = token(cluster, audience="other")
        assert said(first, elsewhere) == (401, f"{refused}it is not for the audience 'tidemark'")
        with monkeypatch.context() as patched:
            later = SimpleNamespace(now=lambda tz: datetime.fromtimestamp(time.time() + 3_700, tz))
            patched.setattr("jwt.api_jwt.datetime", later)
            assert said(first, own) == (401, f"{refused}it has expired")
        cluster.server.stop()
        steady.now_s += READ_AGAIN_SECONDS
        assert said(first, own) == accepted
        with controller("second") as second:
            assert said(second, own) == (503, f"{away}it cannot be reached (ConnectError)")
        # Another key signs from now on. With the one before, the token goes that the keys were read with.
        cluster.server.key = cluster.server.new_key("next")
        cluster.server.start()
        fresh = token(cluster)
        steady.now_s += PAUSE_SECONDS
        assert said(first, fresh) == (503, f"{away}it answers 401")
        renew()
        steady.now_s += PAUSE_SECONDS
        assert said(first, fresh) == accepted
        assert said(first, own) == (401, f"{refused}its issuer has no key of the id that it names")
    # Every account may read the keys, by a role and a binding of Kubernetes' own.
    cluster.done("delete", "clusterrolebinding", DISCOVERY)
    with controller("third") as third:
        assert said(third, fresh) == (503, f"{away}it answers 403")
        reader = f"--serviceaccount={NAMESPACE}:watcher"
        cluster.done("create", "clusterrolebinding", "reader", f"--clusterrole={DISCOVERY}", reader)
        steady.now_s += PAUSE_SECONDS
        assert said(third, fresh) == accepted
