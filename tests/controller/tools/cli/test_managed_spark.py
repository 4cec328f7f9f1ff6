"""What the doctor says of a machine that belongs to a managed Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.cli.managed_spark import PAGE, ROWS, row_of

from support.tree import ROOT

FABRIC = "/home/trusted-service-user/.trident-context"
PLAIN = {
    "HOME": "/",
    "SPARK_HOME": "/opt/spark",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "spark.master": "yarn",
}


def said(**facts: str) -> str:
    (check,) = row_of({**PLAIN, **facts})
    assert check.level == "ok"
    return check.text


@pytest.mark.parametrize(
    ("facts", "row"),
    [
        ({"DATABRICKS_RUNTIME_VERSION": "17.3"}, "Databricks, dedicated access mode"),
        (
            {"DATABRICKS_RUNTIME_VERSION": "17.3", "SPARK_CONNECT_MODE_ENABLED": "1"},
            "Databricks, standard access mode",
        ),
        (
            {"DATABRICKS_RUNTIME_VERSION": "client.4.9", "SPARK_CONNECT_MODE_ENABLED": "1"},
            "Databricks, serverless",
        ),
        ({"DATABRICKS_RUNTIME_VERSION": "17.3", "DATABRICKS_CLUSTER_ID": "0"}, "Databricks, dedicated"),
        ({"DATABRICKS_CLUSTER_ID": "0"}, "Databricks Connect"),
        ({"DATABRICKS_SERVERLESS_COMPUTE_ID": "auto"}, "Databricks Connect"),
        ({"spark.sql.emr.internal.extensions": "com.amazonaws.emr.spark.EmrSparkSessionExtensions"}, "EMR"),
        ({"DATAPROC_IMAGE_VERSION": "2.3"}, "Dataproc clusters"),
        ({"DATAPROC_WORKLOAD_TYPE": "batch", "DATAPROC_IMAGE_VERSION": "2.2"}, "Dataproc Serverless"),
        ({"AZURE_SERVICE": "Microsoft.ProjectArcadia"}, "Synapse"),
        ({"AZURE_SERVICE": "Microsoft.ProjectArcadia", FABRIC: ""}, "Fabric"),
        ({"GLUE_VERSION": "5.1"}, "Glue"),
    ],
)
def test_a_managed_spark_is_named_by_what_it_sets(facts: dict[str, str], row: str) -> None:
    assert said(**facts).startswith(f"this is {row}")


def test_what_is_closed_and_what_is_left_is_said_with_the_page() -> None:
    assert said(DATABRICKS_RUNTIME_VERSION="17.3", SPARK_CONNECT_MODE_ENABLED="1") == (
        "this is Databricks, standard access mode (by DATABRICKS_RUNTIME_VERSION, SPARK_CONNECT_MODE_ENABLED), where "
        "Tidemark was never run. Closed: the driver's JVM, so no Live, no late=, no jar and no tidemark run. "
        "Left: line; Off, OnRestart. See docs/how-to/managed-spark.md"
    )


@pytest.mark.parametrize("facts", [{}, {"AZURE_SERVICE": "another"}, {"MY_GLUE_VERSION": "1"}])
def test_nothing_is_said_anywhere_else(facts: dict[str, str]) -> None:
    assert list(row_of({**PLAIN, **facts})) == []


def test_the_page_has_each_row_with_the_same_that_is_left() -> None:
    """And each row of the page is said by the doctor, and is marked as not run."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    table = text.partition("| service |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table]
    assert all(first.endswith("; *not run*") for first, *_ in cells)
    for row in ROWS:
        left = {last for first, *_, last in cells if first.startswith(row.name)}
        assert left == {row.left}, row.name
    assert all(first.startswith(tuple(row.name for row in ROWS)) for first, *_ in cells)


def test_the_doctor_says_it_first_and_shows_no_value_of_the_environment(tmp_path: Path) -> None:
    conf = tmp_path / "spark-defaults.conf"
    conf.write_text("spark.tidemark.enabled false\n")
    environment = {"GLUE_VERSION": "a-value", "PYSPARK_PYTHON": "/no/python"}
    shown = CliRunner().invoke(app, ["doctor", "--conf", str(conf)], env=environment).stdout
    assert shown.splitlines()[0].startswith("  ok       this is Glue (by GLUE_VERSION)")
    assert "a-value" not in shown
    conf.write_text("spark.sql.emr.internal.extensions com.amazonaws\n")
    shown = (
        CliRunner().invoke(app, ["doctor", "--conf", str(conf)], env={"PYSPARK_PYTHON": "/no/python"}).stdout
    )
    assert shown.splitlines()[0].startswith("  ok       this is EMR (by spark.sql.emr.internal.extensions)")


def test_the_place_is_named_too_where_the_controller_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")

    result = CliRunner().invoke(app, ["doctor", "shop", "--url", "http://127.0.0.1:1"])

    assert result.exit_code == 2
    assert "; this is Databricks, dedicated access mode (by DATABRICKS_RUNTIME_VERSION)" in result.stderr
