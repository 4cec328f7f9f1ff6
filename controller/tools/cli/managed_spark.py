"""Managed Sparks: by what they set, which row of ``docs/how-to/managed-spark.md`` a machine is.

That page has the document behind each sign, and behind what is closed. None of them was run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tidemark.controller.tools.cli.checkup import Check

PAGE = "docs/how-to/managed-spark.md"
_FABRIC = "/home/trusted-service-user/.trident-context"
_FILES = (_FABRIC,)
_NONE_NAMED = "nothing that its documents name"
_NO_JVM = "the driver's JVM, so no Live, no late=, no jar and no tidemark run"


class ManagedSpark(NamedTuple):
    """A row of the page."""

    name: str
    signs: tuple[str, ...]
    """Each NAME=START: a variable, a key of the conf or a file, and what its value begins with. All must be there."""
    closed: str
    """What cannot be used there, and what that takes away."""
    left: str
    """The ways in, with the modes; as in the last column of the page."""


_ALL = "line, `tidemark run`, jar; Off, OnRestart, Live"
_CLIENT = "line; Off, OnRestart"

ROWS = (
    ManagedSpark(
        "Databricks, serverless",
        ("DATABRICKS_RUNTIME_VERSION=client.",),
        f"{_NO_JVM}; the only trigger is availableNow",
        _CLIENT,
    ),
    ManagedSpark(
        "Databricks, standard access mode",
        ("DATABRICKS_RUNTIME_VERSION=", "SPARK_CONNECT_MODE_ENABLED="),
        _NO_JVM,
        _CLIENT,
    ),
    ManagedSpark("Databricks, dedicated access mode", ("DATABRICKS_RUNTIME_VERSION=",), _NONE_NAMED, _ALL),
    ManagedSpark("Databricks Connect", ("DATABRICKS_CLUSTER_ID=",), _NO_JVM, _CLIENT),
    ManagedSpark("Databricks Connect", ("DATABRICKS_SERVERLESS_COMPUTE_ID=",), _NO_JVM, _CLIENT),
    ManagedSpark("EMR", ("spark.sql.emr.internal.extensions=",), _NONE_NAMED, _ALL),
    ManagedSpark("Dataproc Serverless", ("DATAPROC_WORKLOAD_TYPE=batch",), _NONE_NAMED, _ALL),
    ManagedSpark("Dataproc clusters", ("DATAPROC_IMAGE_VERSION=",), _NONE_NAMED, _ALL),
    ManagedSpark("Fabric", (f"{_FABRIC}=",), "jars of an environment in PySpark", _ALL),
    ManagedSpark("Synapse", ("AZURE_SERVICE=Microsoft.ProjectArcadia",), _NONE_NAMED, _ALL),
    ManagedSpark("Glue", ("GLUE_VERSION=",), _NONE_NAMED, _ALL),
)
"""The first one whose signs are all there is taken."""


def managed_here(conf: Mapping[str, str]) -> Iterator[Check]:
    """Return the check that names the managed Spark of this machine; nothing elsewhere.

    Args:
        conf: of its Spark, as far as it is known.
    """
    files = {file: "" for file in _FILES if Path(file).exists()}
    yield from row_of({**os.environ, **conf, **files})


def row_of(facts: Mapping[str, str]) -> Iterator[Check]:
    """Return the check that says which row applies, and what is closed there; nothing where none does.

    Args:
        facts: variables, keys of the conf and files that are there, each with its value. Only names are shown.
    """
    lines = [f"{name}={value}" for name, value in facts.items()]
    for row in ROWS:
        if all(any(line.startswith(sign) for line in lines) for sign in row.signs):
            names = ", ".join(sign.partition("=")[0] for sign in row.signs)
            where = f"this is {row.name} (by {names}), where Tidemark was never run"
            left = row.left.replace("`", "")
            yield Check(f"{where}. Closed: {row.closed}. Left: {left}. See {PAGE}")
            return
