"""Gets Spark's Kafka connector and a Kafka broker from Maven, once, into a folder of the user's cache.

    spark = with_kafka(SparkSession.builder).getOrCreate()
    spark-submit --jars "$(python -m tidemark.spark_jobs.demo.kafka_jars)" job.py

Artifacts are named by coordinates. They are resolved by the Ivy that ships with Spark, in a process of its own, so that
neither Maven nor a Spark session is needed. Ivy gets settings of its own: with Spark's, a local Maven repository that
has an artifact's POM and not its jar makes the resolution fail. Jars that are there already are used without the
network.

The folder is ``tidemark/jars`` under ``XDG_CACHE_HOME`` (``~/.cache``); ``TIDEMARK_JARS`` names another. As with Spark,
``DEFAULT_ARTIFACT_REPOSITORY`` names a mirror to use in place of Maven Central.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from pyspark.sql import SparkSession

from tidemark.spark_jobs.spark.jar import JarsNotFound, spark_jars, spark_version
from tidemark.spark_jobs.spark.java import JavaNotFound, find_java

KAFKA_VERSION = "4.2.0"
"""The broker's version. It runs on Java 17 to 25, and Spark's older client speaks with it."""

_SLF4J_VERSION = "1.7.36"
"""That of the API which the broker is compiled against; without a logger it would end without saying why."""

_CONNECT_SECONDS, _READ_SECONDS, _RESOLVE_SECONDS = 15, 60, 900
_CONNECTOR = "spark-sql-kafka-0-10"
_TOKENS = "spark-token-provider-kafka-0-10"
_log = logging.getLogger("tidemark.kafka")


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact by its coordinates, and which of its dependencies to leave out."""

    organisation: str
    module: str
    revision: str
    without: str | None = None

    def xml(self) -> str:
        """Return the dependency as Ivy writes it."""
        left_out = f"<exclude module={quoteattr(self.without)}/>" if self.without else ""
        coordinates = {"org": self.organisation, "name": self.module, "rev": self.revision}
        attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in coordinates.items())
        return f'<dependency {attributes} conf="default->default">{left_out}</dependency>'


def with_kafka(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Return ``builder`` with the connector's jars, for a session whose JVM is still to be started.

    Sets ``spark.jars``: what was set there before is replaced.

    Raises:
        JarsNotFound: when the jars are neither here nor to be had.
    """
    return builder.config("spark.jars", ",".join(str(jar) for jar in connector_jars()))


def connector_jars() -> list[Path]:
    """Return the jars that Spark needs beyond its own to read and write Kafka, of Spark's own version.

    Raises:
        JarsNotFound: when the jars are neither here nor to be had.
    """
    there = spark_jars()
    scala, version = spark_version(there)
    if any(jar.name.startswith(f"{_CONNECTOR}_") for jar in there):
        return []
    tokens = f"{_TOKENS}_{scala}"
    required = [
        Artifact("org.apache.spark", f"{_CONNECTOR}_{scala}", version, without=tokens),
        # Only jobs that use delegation tokens need this module, but the connector loads it, and not every
        # mirror has it of every version: the newest that is no newer than Spark.
        Artifact("org.apache.spark", tokens, f"[{version.split('.')[0]}.0.0,{version}]"),
    ]
    jars = resolve_jars("spark-kafka", required, without=_module_names(there))
    if not any(jar.name.endswith(f"{tokens}-{version}.jar") for jar in jars):
        _log.info("%s %s cannot be had; an older one is taken, without delegation tokens", tokens, version)
    return jars


def broker_jars() -> list[Path]:
    """Return the jars of a Kafka broker, all that it needs.

    Raises:
        JarsNotFound: when the jars are neither here nor to be had.
    """
    required = [
        Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        Artifact("org.slf4j", "slf4j-simple", _SLF4J_VERSION),
    ]
    return resolve_jars("kafka-broker", required, without=[])


def jars_folder() -> Path:
    """Return the folder that holds the jars; it need not exist."""
    named = os.environ.get("TIDEMARK_JARS")
    if named:
        return Path(named).expanduser().absolute()
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may have no home
        cache = Path(tempfile.gettempdir())
    return cache / "tidemark" / "jars"


def _module_names(jars: list[Path]) -> list[str]:
    """Return the modules that the files may be of: a name ends before some dash that a digit follows."""
    return sorted({jar.stem[: dash.start()] for jar in jars for dash in re.finditer(r"-(?=\d)", jar.stem)})


# -- resolution ----------------------------------------------------------------------------------------------


def resolve_jars(name: str, required: list[Artifact], without: list[str]) -> list[Path]:
    """Return the jars of artifacts and of all that they need.

    Args:
        name: what the folder's name begins with.
        without: modules to leave out, wherever they are needed.

    Raises:
        JarsNotFound: when the jars are neither here nor to be had.
    """
    module = _module_xml(required, without)
    # The folder appears whole, by a rename, and is named after what it was made from: if it is there, it is right.
    folder = jars_folder() / f"{name}-{hashlib.sha256(module.encode()).hexdigest()[:16]}"
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder.parent / ".lock"):
                if not folder.is_dir():
                    _download(module, required, folder)
        except OSError as error:
            raise JarsNotFound(f"{folder.parent} cannot be used for jars: {error}; {_WAY_OUT}") from None
    return sorted(folder.glob("*.jar"))


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let one process in at a time; the lock ends with the process, in any case."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(module: str, required: list[Artifact], folder: Path) -> None:
    names = ", ".join(f"{one.organisation}:{one.module}:{one.revision}" for one in required)
    _log.info("getting %s from Maven into %s", names, folder)
    fetched = folder.parent / "fetched"  # stays after a failure, so that the next attempt goes on from there
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder.parent) as temporary:
        unfinished = Path(temporary)
        (unfinished / "ivy.xml").write_text(module, encoding="utf-8")
        (unfinished / "settings.xml").write_text(_settings_xml(), encoding="utf-8")
        # A module of the same name and version may be in two organisations.
        pattern = unfinished / "jars" / "[organisation]_[artifact]-[revision](-[classifier]).[ext]"
        complaint = _ivy(
            *("-settings", str(unfinished / "settings.xml"), "-ivy", str(unfinished / "ivy.xml")),
            *("-cache", str(fetched), "-confs", "default", "-retrieve", str(pattern)),
        )
        there = sorted((unfinished / "jars").glob("*.jar"))
        missing = [one for one in required if not any(f"_{one.module}-" in jar.name for jar in there)]
        if complaint or missing:
            raise JarsNotFound(f"{names} cannot be had from Maven: {complaint or 'not found'}; {_WAY_OUT}")
        (unfinished / "jars").rename(folder)
    shutil.rmtree(fetched, ignore_errors=True)


def _ivy(*arguments: str) -> str:
    """Run Ivy; return what it complains about in one line, or nothing when all went well."""
    (ivy,) = (jar for jar in spark_jars() if re.fullmatch(r"ivy-\d.*\.jar", jar.name))
    try:
        java = find_java().home / "bin" / "java"
        done = subprocess.run(
            [str(java), "-Xmx256m", "-jar", str(ivy), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_RESOLVE_SECONDS,
            check=False,
        )
    except JavaNotFound as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return f"it took longer than {_RESOLVE_SECONDS} s"
    return "" if done.returncode == 0 else _complaint(done.stdout)


_WAY_OUT = (
    "name a mirror in DEFAULT_ARTIFACT_REPOSITORY, or a proxy (-Dhttps.proxyHost=...) or trusted certificates "
    "(-Djavax.net.ssl.trustStore=...) in JAVA_TOOL_OPTIONS, "
    "or copy the folder of another machine and name it in TIDEMARK_JARS"
)


def _complaint(message: str) -> str:
    """Return in one line the error in Ivy's output: a fault of the network before what follows from it."""
    for pattern in (
        r"Server access error at url \S+ \((.+)\)",
        r"(Host \S+ not found)",
        r"((?:CLIENT|SERVER) ERROR: .+?) url=",
        r":: (\S+: not found)",
        r"(\[FAILED.+)",
    ):
        if errors := list(dict.fromkeys(re.findall(pattern, message))):
            return "; ".join(errors[:3])
    return (message.strip().splitlines() or ["Ivy failed and said nothing"])[-1].strip()


def _module_xml(required: list[Artifact], without: list[str]) -> str:
    lines = [
        '<ivy-module version="2.0">',
        '<info organisation="tidemark" module="jars"/>',
        '<configurations><conf name="default"/></configurations>',
        "<dependencies>",
        *(one.xml() for one in required),
        *(f"<exclude module={quoteattr(name)}/>" for name in without),
        "</dependencies>",
        "</ivy-module>",
    ]
    return "\n".join(lines) + "\n"


def _settings_xml() -> str:
    # Without a root the resolver is Maven Central.
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    patience = f'connectionTimeout="{_CONNECT_SECONDS * 1_000}" readTimeout="{_READ_SECONDS * 1_000}"'
    lines = [
        "<ivysettings>",
        '<settings defaultResolver="maven"/>',
        f'<timeout-constraints><timeout-constraint name="patience" {patience}/></timeout-constraints>',
        f'<resolvers><ibiblio name="maven" m2compatible="true" timeoutConstraint="patience"{root}/></resolvers>',
        "</ivysettings>",
    ]
    return "\n".join(lines) + "\n"


def _main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        jars = connector_jars()
    except JarsNotFound as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(",".join(str(jar) for jar in jars) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
