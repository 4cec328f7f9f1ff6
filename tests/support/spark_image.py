"""What an image of Spark on Kubernetes runs: for ``driver`` spark-submit in client mode, for ``executor`` a class."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

from tidemark.spark_jobs.spark.java import ensure_java

_EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def _main(what: str, *words: str) -> None:
    home, given = Path(pyspark.__file__).parent, os.environ
    ensure_java()
    if what == "driver":
        bound = f"spark.driver.bindAddress={given['SPARK_DRIVER_BIND_ADDRESS']}"
        command = [str(home / "bin" / "spark-submit"), "--conf", bound, "--deploy-mode", "client", *words]
    else:
        memory = given["SPARK_EXECUTOR_MEMORY"]
        options = {
            "--driver-url": given["SPARK_DRIVER_URL"],
            "--executor-id": given["SPARK_EXECUTOR_ID"],
            "--cores": given["SPARK_EXECUTOR_CORES"],
            "--app-id": given["SPARK_APPLICATION_ID"],
            "--hostname": given["SPARK_EXECUTOR_POD_IP"],
            "--resourceProfileId": given["SPARK_RESOURCE_PROFILE_ID"],
            "--podName": given["SPARK_EXECUTOR_POD_NAME"],
        }
        java = str(Path(given["JAVA_HOME"]) / "bin" / "java")
        opened = [value for name, value in given.items() if name.startswith("SPARK_JAVA_OPT_")]
        command = [java, *opened, f"-Xms{memory}", f"-Xmx{memory}", "-cp", f"{home}/jars/*", _EXECUTOR]
        command += [word for option in options.items() for word in option]
    os.execv(command[0], command)


if __name__ == "__main__":
    _main(*sys.argv[1:])
