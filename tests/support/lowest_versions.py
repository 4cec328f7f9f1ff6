"""The lowest versions that ``pyproject.toml`` declares, on the oldest and the newest Python, each extra on its own.

    make lowest

Each extra gets an environment of its own with the lowest versions of what it names, and this tree's wheel. There every
module is imported; a module may lack what another extra brings, and nothing else. Then a controller serves, and a Spark
job reports to it, both on these versions.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from pathlib import Path

import httpx

from support.patience import until
from support.release import UV, environment_in, install, interpreter_of, run, serving
from support.tree import ROOT

__all__ = ["extras"]

PYTHONS = ("3.11", "3.14")

IMPORT_ALL = """
import importlib, importlib.util, pkgutil

def brought_by_another_extra(error):
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            package = (error.name or "tidemark").partition(".")[0]
            spec = importlib.util.find_spec(package)
            # Several distributions share a package without an origin.
            return package != "tidemark" and (spec is None or spec.origin is None)
        error = error.__cause__ or error.__context__
    return False

imported = lacking = 0
for tree in ("models", "controller", "spark_jobs"):
    root = importlib.import_module(f"tidemark.{tree}")
    for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}.", onerror=lambda name: None):
        if module.name.endswith(".__main__") or ".migrations." in module.name:
            continue
        try:
            importlib.import_module(module.name)
            imported += 1
        except ImportError as error:
            if not brought_by_another_extra(error) and "needs PySpark" not in str(error):
                raise
            lacking += 1
print(f"{imported} modules imported; {lacking} more need another extra")
"""
"""Fails where a module cannot be imported for another reason than a package that the extra does not bring."""

JOB = """
import sys
from pyspark.sql import SparkSession, functions as F
from tidemark.spark_jobs import adaptive_watermark, flush

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 1)
spark.conf.set("spark.tidemark.controller.url", sys.argv[1])
rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
timed = rows.transform(adaptive_watermark("timestamp", "5 seconds", job="lowest", stream="rate"))
query = timed.groupBy(F.window("timestamp", "2 seconds")).count().writeStream.format("noop").start()
while (query.lastProgress or {"batchId": 0})["batchId"] < 2:
    query.awaitTermination(1)
query.stop()
flush(60)
print("PySpark", spark.version)
"""
"""Ends once the controller has the reports of three batches."""


def extras() -> list[str]:
    """Return the extras of ``pyproject.toml``, but for the one that names an exact PySpark."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [name for name in declared["project"]["optional-dependencies"] if name != "demo"]


def _made(folder: Path, version: str, interpreter: str | Path, extra: str, wheel: Path) -> Path:
    """Return the interpreter of an environment with the lowest versions of an extra, after importing all modules."""
    folder.mkdir(parents=True)
    python = environment_in(folder, interpreter)
    install(python, "--resolution", "lowest-direct", "-r", ROOT / "pyproject.toml", "--extra", extra)
    install(python, "--no-deps", wheel)
    packages = run(UV, "pip", "list", "--quiet", "--format", "freeze", "--python", python, cwd=folder)
    print(f"Python {version}, {extra}: {' '.join(packages.split())}", flush=True)
    print(f"  {run(python, '-c', IMPORT_ALL, cwd=folder).strip()}", flush=True)
    return python


def _wait_for_reports(stream: str) -> None:
    until(
        lambda: httpx.get(stream).status_code == httpx.codes.OK,
        "a report",
        seen=lambda: httpx.get(stream).text,
    )


def _main() -> int:
    missing = []
    with tempfile.TemporaryDirectory(prefix="tidemark-lowest-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder / "dist", ".", cwd=ROOT)
        (wheel,) = (folder / "dist").glob("*.whl")
        for version in PYTHONS:
            interpreter = interpreter_of(version)
            if interpreter is None:
                missing.append(version)
                continue
            made = {
                extra: _made(folder / version / extra, version, interpreter, extra, wheel)
                for extra in extras()
            }
            with serving(made["controller"], folder / version) as url:
                print(f"  {run(made['spark'], '-c', JOB, url, cwd=folder).strip()}", end="", flush=True)
                _wait_for_reports(f"{url}/v1/jobs/lowest/streams/rate")
                print(" reports to the controller", flush=True)
    for version in missing:
        print(
            f"there is no Python {version} here, so the lowest versions are not tried on it", file=sys.stderr
        )
    return 1 if missing and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(_main())
