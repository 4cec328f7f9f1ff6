"""Tidemark's jar: what is built, which one is taken, and a job that has it."""

from __future__ import annotations

import logging
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext

from tidemark.spark_jobs.core.counting import _usable
from tidemark.spark_jobs.spark import jar as jars
from tidemark.spark_jobs.spark import java
from tidemark.spark_jobs.spark.jar import (
    STAMP,
    JarsNotFound,
    built_of,
    installed_jar,
    java_sources,
    scala_of,
    spark_jars,
    spark_version,
)
from tidemark.spark_jobs.spark.java_classes import classes_of_jar

from support import jar_build
from support.archive import write_zip
from support.command_line import exit_code
from support.faults import Survived
from support.jars import ROWS_OF_JOB, built_jar, submit
from support.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

COMPILED = "/tidemark.jar at spark://"
"""What Spark logs when it gets the jar of classes that were compiled in the driver."""

MAIN_CLASSES = {f"tidemark/{Path(name).stem}.class" for name in java_sources() if "/" not in name}


@pytest.fixture(scope="module", name="jar")
def _jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_jar(tmp_path_factory.mktemp("jar"))


# -- what is built ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_jar_has_every_class_and_says_what_it_was_built_of(jar: Path) -> None:
    scala, _ = spark_version(spark_jars())
    with zipfile.ZipFile(jar) as archive:
        names = set(archive.namelist())
        stamp = archive.read(STAMP).decode()
        services = {name: archive.read(name).decode() for name in names if "/services/" in name}
    extensions = "tidemark/attach/TidemarkExtensions.class" in names

    assert names >= {"META-INF/MANIFEST.MF", *MAIN_CLASSES}
    assert {name.split("/")[0] for name in names} == {"META-INF", "tidemark"}, "NOTICE says so"
    assert stamp == built_of(scala)
    assert jar.name.startswith(f"tidemark-spark_{scala}-")
    assert services == (
        {
            "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider": (
                "tidemark.attach.TidemarkExtensions\n"
            )
        }
        if extensions
        else {}
    )


@pytest.mark.slow
def test_the_same_sources_give_the_same_bytes(jar: Path, tmp_path: Path) -> None:
    assert built_jar(tmp_path).read_bytes() == jar.read_bytes()


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.versions
def test_every_spark_of_one_scala_has_the_same_jar(
    jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the one which was built against this tree's Spark runs on all of them."""
    (home,) = (ROOT / ".venv").glob("lib/python*/site-packages/pyspark")
    monkeypatch.setenv("SPARK_HOME", str(home))
    other = built_jar(tmp_path)

    assert (other.read_bytes() == jar.read_bytes()) == (other.name == jar.name)


@pytest.mark.slow
def test_a_repository_for_packages_has_the_jar_by_its_coordinates(jar: Path, tmp_path: Path) -> None:
    coordinates = jar_build.lay_out(jar, tmp_path)
    _, name, version = coordinates.split(":")
    folder = tmp_path / "tidemark" / name / version

    assert (folder / f"{name}-{version}.jar").read_bytes() == jar.read_bytes()
    assert f"<artifactId>{name}</artifactId>" in (folder / f"{name}-{version}.pom").read_text()


def test_without_a_jdk_the_way_out_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise java.JavaNotFound("none")

    monkeypatch.setattr(jar_build, "find_java", none)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(JarsNotFound, match=r"^no javac here: install a JDK 17 or newer [^\n]+JAVA_HOME$"):
        jar_build.javac()


# -- which one is taken -------------------------------------------------------------------------------------------


def _plant(folder: Path, scala: str, stamp: str) -> Path:
    path = folder / f"tidemark-spark_{scala}-0.1.0.jar"
    write_zip(path, {STAMP: stamp.encode()})
    return path


@pytest.fixture(name="folder")
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where jars are looked for, on a machine whose Spark is 3.5.9 with Scala 2.12."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core_2.12-3.5.9.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setattr(jars, "FOLDER", tmp_path / "jars")
    return tmp_path / "jars"


def test_the_jar_for_the_scala_of_the_installed_spark_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = _plant(folder, "2.12", built_of("2.12"))
    _plant(folder, "2.13", built_of("2.13"))

    assert installed_jar() == wanted
    assert exit_code("jar", given=[]) == 0
    assert capsys.readouterr().out == f"{wanted}\n"


@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        (None, r"has no jar for Scala 2\.12; `SPARK_HOME=\S+spark make jar` .* builds it"),
        ("Scala 2.12, sources 0", r"was built of Scala 2\.12, sources 0, and this is .* builds it"),
    ],
)
def test_a_jar_that_is_missing_or_of_other_sources_is_an_error_with_the_way_out(
    folder: Path, stamp: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if stamp is not None:
        _plant(folder, "2.12", stamp)

    with pytest.raises(JarsNotFound, match=said):
        installed_jar()
    assert exit_code("jar", given=[]) == 2
    assert "make jar` in a clone" in capsys.readouterr().err


def test_without_a_spark_there_is_no_jar_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with pytest.raises(JarsNotFound, match="install pyspark, or name Spark's folder in SPARK_HOME"):
        installed_jar()


@pytest.fixture(name="on_class_path")
def _on_class_path(spark: SparkSession) -> Iterator[Any]:
    """Return what lets the driver's thread find a jar."""
    jvm: Any = SparkContext._jvm
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()

    def put(path: Path) -> None:
        urls = SparkContext._gateway.new_array(jvm.java.net.URL, 1)  # type: ignore[union-attr]
        urls[0] = jvm.java.io.File(str(path)).toURI().toURL()
        thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, before))

    yield put
    thread.setContextClassLoader(before)


@pytest.mark.slow
@pytest.mark.spark
def test_a_jar_of_another_tidemark_or_scala_is_not_used_and_the_log_says_so(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, on_class_path: Any
) -> None:
    jvm: Any = SparkContext._jvm
    scala = scala_of(jvm.scala.util.Properties.versionNumberString())
    assert classes_of_jar(spark.sparkContext) is None
    assert caplog.messages == [], "there is no jar, and nothing to be said"
    for number, stamp in enumerate((built_of("2.11"), f"Scala {scala}, sources 0")):
        path = tmp_path / str(number) / "tidemark-spark.jar"
        write_zip(path, {STAMP: stamp.encode()})
        on_class_path(path)
        caplog.clear()

        assert _usable(classes_of_jar, spark, "Tidemark's jar") is None
        (said,) = caplog.messages
        assert said.endswith(f"file:{path} was built of {stamp}, and this is {built_of(scala)}")


@pytest.mark.slow
@pytest.mark.spark
def test_the_jar_of_this_tidemark_is_used(
    spark: SparkSession, jar: Path, on_class_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    on_class_path(jar)
    classes = classes_of_jar(spark.sparkContext)

    assert classes is not None
    assert classes.sent, "driver and executor are one process"
    assert classes.make("SetBack", 1, 1, 0).getClass().getName() == "tidemark.SetBack"
    assert caplog.messages == []


# -- a job that has it --------------------------------------------------------------------------------------------


def _assert_exact(result: dict[str, Any]) -> None:
    assert result["late"] > 0
    assert result["sink"] + result["late"] == ROWS_OF_JOB
    assert "running without" not in result["log"]


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.versions
def test_a_job_with_the_jar_compiles_nothing_and_its_ledger_equals_the_sink(
    jar: Path, tmp_path: Path
) -> None:
    result = submit(tmp_path, "local[2]", "--jars", str(jar))

    _assert_exact(result)
    assert result["classes"] == "tidemark"
    assert COMPILED not in result["log"]


@pytest.mark.long
@pytest.mark.slow
def test_two_executors_get_the_jar_from_spark(jar: Path, tmp_path: Path) -> None:
    result = submit(tmp_path, "local-cluster[2,1,1024]", "--jars", str(jar))

    _assert_exact(result)
    assert result["classes"] == "tidemark"


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("what", ["the executors do not have it", "it is of other sources"])
def test_where_the_jar_cannot_be_used_its_classes_are_compiled(jar: Path, tmp_path: Path, what: str) -> None:
    option = "--driver-class-path"
    if what == "it is of other sources":
        option = "--jars"
        with zipfile.ZipFile(jar) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        jar = tmp_path / "other" / jar.name
        write_zip(jar, {**entries, STAMP: b"others"})
    (tmp_path / "job").mkdir()
    result = submit(tmp_path / "job", "local-cluster[2,1,1024]", option, str(jar))

    assert result["log"].count("running without") == 1
    assert "running without Tidemark's jar; its classes are compiled: " in result["log"]
    assert COMPILED in result["log"]
    assert result["classes"] == "tidemark.compiled1"
    assert result["late"] > 0
    assert result["sink"] + result["late"] == ROWS_OF_JOB


TWO_CONTEXTS = """
from pyspark.sql import SparkSession
from tidemark.spark_jobs.core.counting import classes_for
for _ in range(2):
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    print(classes_for(spark).package)
    spark.stop()
"""


@pytest.mark.soak
@pytest.mark.slow
def test_the_next_context_of_one_jvm_has_compiled_classes_too() -> None:
    """Py4J keeps the methods of a class by its name."""
    done = subprocess.run([sys.executable, "-c", TWO_CONTEXTS], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["tidemark.compiled1", "tidemark.compiled2"]


@pytest.mark.soak
@pytest.mark.slow
def test_spark_resolves_the_jar_from_a_local_repository(jar: Path, tmp_path: Path) -> None:
    coordinates = jar_build.lay_out(jar, tmp_path / "maven")
    (tmp_path / "job").mkdir()
    result = submit(
        tmp_path / "job",
        "local[2]",
        *("--packages", coordinates, "--repositories", (tmp_path / "maven").as_uri()),
        *("--conf", f"spark.jars.ivy={tmp_path / 'ivy'}"),
    )

    _assert_exact(result)
    assert result["classes"] == "tidemark"


@pytest.mark.soak
@pytest.mark.slow
def test_rows_of_a_batch_in_which_an_executor_was_killed_are_in_the_sink_or_late(
    jar: Path, tmp_path: Path, survived: Survived
) -> None:
    """Spark runs its tasks again elsewhere, with the state of the batch before."""
    found = submit(tmp_path, "local-cluster[2,1,1024]", "--jars", str(jar), job="killed_executors.py")
    survived(
        "an executor is killed while it has tasks",
        times=found["kills"],
        rows=found["rows"],
        lost=found["rows"] - found["sink"] - found["late"],
        verdicts=found["judged"],
        wrong=abs(found["judged"] - found["rows"] - found["closing"]),
    )

    assert found["kills"] == 2
    assert found["late"] > 0
    assert found["unknown"] == 0
    assert found["sink"] + found["late"] == found["rows"]
    assert found["judged"] == found["rows"] + found["closing"]
