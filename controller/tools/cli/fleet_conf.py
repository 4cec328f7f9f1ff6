"""The conf that lets all jobs of a fleet be watched: ``tidemark spark-conf`` prints it, the doctor checks it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from json import dumps
from pathlib import Path
from shlex import quote

import click

from tidemark.controller.tools.cli.checkup import Check
from tidemark.controller.tools.cli.run import connect, errors_in_one_line
from tidemark.controller.tools.cli.spark_programs import spark_side
from tidemark.controller.tools.client.errors import ClientError, RequestRejectedError

_PREFIX = "spark.tidemark."
_URL, _TOKEN_FILE = f"{_PREFIX}controller.url", f"{_PREFIX}token.file"
_PYTHON, _ENABLED, _JARS = f"{_PREFIX}python", f"{_PREFIX}enabled", "spark.jars"
_PYTHON_KEYS = (_PYTHON, "spark.pyspark.driver.python", "spark.pyspark.python")
_PYTHON_VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_JAR_NAME = "tidemark-spark"
_IMPORT_S = 60.0
_PROBE = "import pyspark, tidemark.spark_jobs.attach.watermark as found; print(pyspark.__version__, found.__file__)"


def spark_conf(
    form: str,
    *,
    jar: str | None,
    python: str | None,
    conf: Sequence[str],
    url: str,
    token_file: Path | None,
) -> None:
    """Print the conf that lets every job of a fleet be watched, with no line of a job changed."""
    with errors_in_one_line():
        lines = {_URL: url, _PYTHON: python or sys.executable}
        if token_file is not None:
            lines[_TOKEN_FILE] = str(token_file)
        for text in conf:
            key, equals, value = text.partition("=")
            if not equals or not key.startswith(_PREFIX):
                raise ValueError(f"--conf {text}: write it as {_PREFIX}KEY=VALUE")
            lines[key] = value
        where = jar or _installed_jar()
    click.echo(_FORMS[form](where, lines))


def _installed_jar() -> str:
    try:
        return str(spark_side("spark.jar").installed_jar())
    except (ImportError, RuntimeError) as error:
        raise ValueError(f"name Tidemark's jar by --jar: {error}") from error


def _defaults(jar: str, conf: Mapping[str, str]) -> str:
    lines = {_JARS: jar, **conf}
    width = max(map(len, lines))
    return "\n".join(f"{key:<{width}}  {value}" for key, value in lines.items())


def _submit(jar: str, conf: Mapping[str, str]) -> str:
    options = [f"--conf {quote(f'{key}={value}')}" for key, value in conf.items()]
    return " \\\n  ".join([f"spark-submit --jars {quote(jar)}", *options, "..."])


def _operator(jar: str, conf: Mapping[str, str]) -> str:
    # JSON's strings are YAML's.
    lines = [f"    {key}: {dumps(value)}" for key, value in conf.items()]
    return "\n".join(["spec:", "  deps:", "    jars:", f"      - {dumps(jar)}", "  sparkConf:", *lines])


def _databricks(jar: str, conf: Mapping[str, str]) -> str:
    # Libraries of a cluster come after its session, which takes extensions as it is made.
    script = [
        "# An init script of the cluster:",
        f"#   cp {quote(jar)} /databricks/jars/",
        "# Its Spark config:",
    ]
    return "\n".join([*script, *(f"{key} {value}" for key, value in conf.items())])


_FORMS = {"defaults": _defaults, "submit": _submit, "operator": _operator, "databricks": _databricks}


def read_defaults(file: Path) -> dict[str, str]:
    """Return the conf in a ``spark-defaults.conf``.

    Raises:
        OSError: when it cannot be read.
    """
    conf = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        # As in properties of Java: blanks or an equals sign end the key.
        if parts := re.match(r"\s*([^#\s=][^\s=]*)\s*=?\s*(.*?)\s*$", line):
            conf[parts[1]] = parts[2]
    return conf


def check_conf(conf: Mapping[str, str]) -> Iterator[Check]:
    """Return whether jobs with a conf are watched, as far as that can be seen on this machine."""
    if conf.get(_ENABLED, "").strip().lower() == "false":
        yield Check(f"{_ENABLED} is false: no job is watched", f"take {_ENABLED} out", needed=True)
    yield from _unknown_keys(conf)
    yield _jar(conf)
    yield _python(conf)
    yield _controller(conf)


def _unknown_keys(conf: Mapping[str, str]) -> Iterator[Check]:
    try:
        settings = spark_side("core.settings")
    except ImportError:  # PySpark is elsewhere
        return
    for key, near in settings.unknown_keys(conf):
        what = f"write {near}" if near else "tidemark spark-conf prints the keys of a fleet"
        yield Check(f"{key} is no key of Tidemark, and has no effect", what)


def _jar(conf: Mapping[str, str]) -> Check:
    jars = [jar.strip() for jar in conf.get(_JARS, "").split(",")]
    jar = next((jar for jar in jars if _JAR_NAME in jar.rsplit("/", 1)[-1]), None)
    if jar is None:
        return Check(
            f"{_JARS} has no {_JAR_NAME}*.jar: only jobs that call Tidemark, or start by `tidemark run`, are watched",
            "tidemark spark-conf prints the lines",
            needed=True,
        )
    scheme, separator, path = jar.partition(":")
    local = Path(path if separator and scheme in {"file", "local"} else jar)
    if separator and scheme not in {"file", "local"}:
        return Check(f"the jar is {jar}; whether it is there cannot be seen from here")
    if not local.is_file():
        return Check(
            f"there is no jar {local} on this machine",
            "put it there, or check where drivers run",
            needed=True,
        )
    return Check(f"the jar {local} is there")


def _python(conf: Mapping[str, str]) -> Check:
    pythons = [*map(conf.get, _PYTHON_KEYS), *map(os.environ.get, _PYTHON_VARIABLES)]
    python = next(filter(None, pythons), "python3")
    step = f"install Tidemark there with the extra spark, or name another Python in {_PYTHON}"
    try:
        done = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, timeout=_IMPORT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(f"the Python {python} does not run: {error}", step, needed=True)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Check(f"the Python {python} has no Tidemark for Spark: {why}", step, needed=True)
    return Check(f"the Python {python} has Tidemark, and PySpark {done.stdout.split()[0]}")


def _controller(conf: Mapping[str, str]) -> Check:
    url, token_file = conf.get(_URL), conf.get(_TOKEN_FILE)
    if not url:
        return Check(f"{_URL} is not set: nothing is reported", f"set {_URL}", needed=True)
    try:
        with connect(url, None if token_file is None else Path(token_file)) as tidemark:
            tidemark.ready()
            with suppress(RequestRejectedError):  # a job's token need not read, but is one
                next(iter(tidemark.jobs()), None)
    except ClientError as error:
        return Check(
            f"jobs do not reach the controller: {error}", f"see {_URL} and {_TOKEN_FILE}", needed=True
        )
    return Check(f"jobs reach the controller at {url}")
