"""Tidemark's jar: where it is, which Spark it fits, and which sources it was built of.

A jar on the class path of driver and executors saves compiling the Java classes when a job starts (``java_classes``).
What ``javac`` makes of them depends on the binary version of Scala, so there is one for each; it runs on every version
of Spark that is supported (``docs/reference/spark.md``). ``make jar`` builds it.

Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

NAME = "tidemark-spark"
FOLDER = Path(__file__).with_name("jars")
"""Where the jars are built; the wheel brings them along."""

STAMP = "tidemark/built-of"
"""A file in the jar that says what it was built of: the text of ``built_of``."""


class JarsNotFound(RuntimeError):
    """Jars are neither here nor to be had; the message is one line: what is missing and what to do."""


def java_sources() -> dict[str, bytes]:
    """Return the Java sources, by their paths below ``java_sources``."""
    return dict(sorted(_read(files("tidemark.spark_jobs.spark").joinpath("java_sources"), "")))


def _read(folder: Traversable, place: str) -> list[tuple[str, bytes]]:
    sources = []
    for entry in folder.iterdir():
        name = f"{place}{entry.name}"
        if entry.is_dir():
            sources += _read(entry, f"{name}/")
        elif name.endswith(".java"):
            sources.append((name, entry.read_bytes()))
    return sources


def built_of(scala: str) -> str:
    """Return what a jar for a binary version of Scala is built of: that version, and a hash of the Java sources.

    Two of one version of Tidemark may differ while it is worked on; so sources are compared, and not versions.
    """
    content = hashlib.sha256()
    for name, text in java_sources().items():
        content.update(f"{name} {len(text)}\n".encode() + text)
    return f"Scala {scala}, sources {content.hexdigest()[:16]}"


def scala_of(version: str) -> str:
    """Return the binary version of Scala of a full one: ``2.13`` of ``2.13.18``."""
    return ".".join(version.split(".")[:2])


def spark_jars() -> list[Path]:
    """Return the jars of the Spark that ``SPARK_HOME`` names, else of the installed PySpark; none without one."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        package = find_spec("pyspark")
        if package is None or package.origin is None:
            return []
        home = str(Path(package.origin).parent)
    return sorted(Path(home, "jars").glob("*.jar"))


def spark_version(jars: list[Path]) -> tuple[str, str]:
    """Return the binary version of Scala and the version of Spark, by Spark's own jars.

    Raises:
        JarsNotFound: when they are not those of a Spark.
    """
    for jar in jars:
        if match := re.fullmatch(r"spark-core_(\d+\.\d+)-(.+)\.jar", jar.name):
            return match[1], match[2]
    raise JarsNotFound("no jars of a Spark here: install pyspark, or name Spark's folder in SPARK_HOME")


def installed_jar() -> Path:
    """Return the jar for the installed Spark.

    Raises:
        JarsNotFound: when there is no Spark, or no jar for it, or only one of other sources.
    """
    jars = spark_jars()
    scala, _ = spark_version(jars)
    home = jars[0].parent.parent
    way_out = f"`SPARK_HOME={home} make jar` in a clone of Tidemark builds it, with a JDK 17 or newer"
    built = sorted(FOLDER.glob(f"{NAME}_{scala}-*.jar"))
    if not built:
        raise JarsNotFound(f"{FOLDER} has no jar for Scala {scala}; {way_out}")
    if (stamp := _stamp(built[-1])) != built_of(scala):
        raise JarsNotFound(f"{built[-1]} was built of {stamp}, and this is {built_of(scala)}; {way_out}")
    return built[-1]


def _stamp(jar: Path) -> str:
    with zipfile.ZipFile(jar) as archive:
        return archive.read(STAMP).decode()
