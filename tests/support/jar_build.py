"""Builds Tidemark's jar against the jars of a Spark, with ``javac`` of a JDK 17 or newer.

    python -m support.jar_build MAVEN_FOLDER

The Spark is the installed one (``jar.spark_jars``), and the jar stands in ``jar.FOLDER`` afterwards, in place of an
earlier one for the same Scala. ``MAVEN_FOLDER`` becomes a Maven repository with a copy of it, for ``--packages`` and
``--repositories`` of ``spark-submit``.

The same sources, compiled by the same ``javac``, give the same bytes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tidemark.spark_jobs.spark.jar import (
    FOLDER,
    NAME,
    STAMP,
    JarsNotFound,
    built_of,
    java_sources,
    spark_jars,
    spark_version,
)
from tidemark.spark_jobs.spark.java import JavaNotFound, find_java

from support.archive import write_zip

GROUP = "tidemark"
_RELEASE = "17"  # the oldest Java of Spark 4
_OPTIONS = ("-encoding", "UTF-8", "-proc:none", "-nowarn", "-Xlint:none", "-g:source,lines")
_EXTENSIONS = "tidemark/attach/TidemarkExtensions"
_SERVICE = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
_MANIFEST = (
    "Manifest-Version: 1.0\r\nImplementation-Title: {name}\r\nImplementation-Version: {version}\r\n\r\n"
)
_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <version>{version}</version>
</project>
"""


def build_jar(folder: Path) -> Path:
    """Build the jar for the installed Spark into a folder, in place of those for the same Scala, and return it.

    Raises:
        JarsNotFound: without a Spark or a ``javac``, and when the sources do not compile.
    """
    jars = spark_jars()
    scala, _ = spark_version(jars)
    name = f"{NAME}_{scala}"
    entries = _compiled(jars[0].parent)
    entries["META-INF/MANIFEST.MF"] = _MANIFEST.format(
        name=name, version=version("tidemark-streaming")
    ).encode()
    entries[STAMP] = built_of(scala).encode()
    if f"{_EXTENSIONS}.class" in entries:
        entries[_SERVICE] = f"{_EXTENSIONS.replace('/', '.')}\n".encode()
    for earlier in folder.glob(f"{name}-*.jar"):
        earlier.unlink()  # and not written over: a JVM may have it open
    jar = folder / f"{name}-{version('tidemark-streaming')}.jar"
    write_zip(jar, entries)
    return jar


def _compiled(spark: Path) -> dict[str, bytes]:
    """Compile the sources against the jars in a folder; return the classes by their paths."""
    with tempfile.TemporaryDirectory(prefix="tidemark-jar-") as temporary:
        sources, classes = Path(temporary, "sources"), Path(temporary, "classes")
        names = []
        for name, text in java_sources().items():
            path = sources / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            names.append(name)
        paths = ["-classpath", f"{spark}/*", "-d", str(classes)]
        command = [javac(), "--release", _RELEASE, *_OPTIONS, *paths, *names]
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
        if done.returncode:
            raise JarsNotFound(
                f"the Java sources do not compile against {spark}:\n{done.stdout}{done.stderr}"
            )
        return {path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")}


def javac() -> str:
    """Return the compiler: beside the Java that Spark starts, else on PATH.

    Raises:
        JarsNotFound: when there is none.
    """
    try:
        beside = find_java().home / "bin" / "javac"
    except JavaNotFound:
        beside = Path()
    compiler = str(beside) if beside.is_file() else shutil.which("javac")
    if compiler is None:
        raise JarsNotFound(
            "no javac here: install a JDK 17 or newer (Debian: apt-get install openjdk-17-jdk-headless; macOS: brew "
            "install openjdk@17), or name it in JAVA_HOME"
        )
    return compiler


def lay_out(jar: Path, repository: Path) -> str:
    """Copy a jar into a Maven repository, which need not exist; return its coordinates."""
    name, its_version = jar.stem.rsplit("-", 1)
    folder = repository / GROUP / name / its_version
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(jar, folder / jar.name)
    pom = _POM.format(group=GROUP, name=name, version=its_version)
    (folder / f"{jar.stem}.pom").write_text(pom, encoding="utf-8")
    return f"{GROUP}:{name}:{its_version}"


def _main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m support.jar_build MAVEN_FOLDER\n")
        return 2
    try:
        jar = build_jar(FOLDER)
    except JarsNotFound as error:
        sys.stderr.write(f"{error}\n")
        return 1
    repository = Path(arguments[0]).absolute()
    sys.stdout.write(
        f"{jar}: {jar.stat().st_size} bytes\n{lay_out(jar, repository)} in {repository.as_uri()}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
