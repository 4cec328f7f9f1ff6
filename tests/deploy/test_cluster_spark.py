"""``spark-submit`` in cluster mode against a Kubernetes API: the pods that Spark makes, and a job that runs in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.java import ensure_java

from support.cluster import running_cluster
from support.cluster_node import Node
from support.cluster_pod import Image
from support.cluster_programs import NEWEST
from support.controller_app import Controller
from support.jars import ROWS_OF_JOB, built_jar
from support.served import served
from support.tokens import bearer, make_token
from support.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long]

NAMESPACE, IMAGE = "jobs", "registry.example/spark-tidemark:4.2.0"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_a_job_in_cluster_mode_has_jar_conf_labels_and_token_in_its_pods_and_its_ledger_equals_its_sink(
    tmp_path: Path,
) -> None:
    jar = built_jar(tmp_path / "jar")
    for name in ("cluster", "job"):
        (tmp_path / name).mkdir()
    with (
        running_cluster(tmp_path / "cluster", NEWEST) as cluster,
        Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller,
        served(controller.app) as url,
    ):
        token, viewer = make_token(controller, "job", "shop"), make_token(controller, "viewer")
        where = ("--namespace", NAMESPACE)
        cluster.done("create", "namespace", NAMESPACE)
        cluster.done("create", "serviceaccount", "spark", *where)
        cluster.done(
            "create",
            "rolebinding",
            "spark",
            "--clusterrole=edit",
            f"--serviceaccount={NAMESPACE}:spark",
            *where,
        )
        cluster.done(
            "create", "secret", "generic", "shop-tidemark-token", *where, f"--from-literal=token={token}"
        )
        home = Path(pyspark.__file__).parent
        environment = {"JAVA_HOME": str(ensure_java().home), "SPARK_HOME": str(home), "HOME": str(tmp_path)}
        entrypoint = (sys.executable, "-m", "support.spark_image")
        image = Image({**environment, "PYTHONPATH": str(ROOT / "tests")}, entrypoint)
        node = Node(cluster, tmp_path / "pods", NAMESPACE, {IMAGE: image})
        confs = {
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.container.image": IMAGE,
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.kubernetes.driver.secrets.shop-tidemark-token": "/run/tidemark",
            "spark.kubernetes.driver.label.team": "shop",
            "spark.tidemark.job": "shop",
            "spark.tidemark.controller.url": url,
            "spark.tidemark.token.file": "/run/tidemark/token",
            "spark.executor.instances": "1",
            # Where the account and the API are, which else a pod knows by paths and names of its own.
            "spark.kubernetes.driver.master": cluster.url,
            "spark.kubernetes.authenticate.driver.mounted.oauthTokenFile": f"{ACCOUNT}/token",
            "spark.kubernetes.authenticate.driver.mounted.caCertFile": f"{ACCOUNT}/ca.crt",
            "spark.pyspark.python": sys.executable,
            "spark.ui.enabled": "false",
            "spark.sql.streaming.metricsEnabled": "true",
            "spark.sql.shuffle.partitions": "1",
            **LOCAL_SPARK,
        }
        options = [word for key, value in confs.items() for word in ("--conf", f"{key}={value}")]
        with node.running():
            job = [f"local://{ROOT / 'tests' / 'support' / 'jar_job.py'}", str(tmp_path / "job")]
            submit = [str(home / "bin" / "spark-submit"), "--master", f"k8s://{cluster.url}"]
            submitted = subprocess.run(
                [
                    *submit,
                    "--deploy-mode",
                    "cluster",
                    "--name",
                    "shop",
                    "--jars",
                    f"local://{jar}",
                    *options,
                    *job,
                ],
                env={**os.environ, **environment, "KUBECONFIG": str(cluster.config)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert submitted.returncode == 0, submitted.stderr[-8_000:] + node.logs()
            pods = {pod["metadata"]["labels"]["spark-role"]: pod for pod in node.documents()}
            (settings,) = (
                each["data"]["spark.properties"]
                for each in cluster.objects("configmaps", NAMESPACE)
                if "spark.properties" in each["data"]
            )
            logs = node.logs()
        (printed,) = (line for line in logs.splitlines() if line.startswith('{"sink"'))
        result = json.loads(printed)
        known = controller.http.get("/v1/jobs/shop/streams/rows", headers=bearer(viewer)).json()

    # What the pods were given, as the API has it.
    driver, executor = pods["driver"], pods["executor"]
    assert driver["metadata"]["labels"]["team"] == "shop"
    mounted = {mount["mountPath"]: mount["name"] for mount in driver["spec"]["containers"][0]["volumeMounts"]}
    secrets = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in driver["spec"]["volumes"]
        if "secret" in volume
    }
    assert secrets[mounted["/run/tidemark"]] == "shop-tidemark-token"
    assert token not in json.dumps(pods) + settings
    assert not [volume for volume in executor["spec"]["volumes"] if "secret" in volume]
    written = dict(line.split("=", 1) for line in settings.splitlines() if "=" in line and line[0] != "#")
    assert written["spark.jars"] == f"local\\://{jar}"
    assert written["spark.tidemark.job"] == "shop"
    assert written["spark.tidemark.token.file"] == "/run/tidemark/token"
    # What came of it.
    assert (result["sink"] + result["late"], result["classes"]) == (ROWS_OF_JOB, "tidemark")
    assert known["stream"] == "rows"
