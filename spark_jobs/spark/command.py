"""What commands share that start a Spark of their own: its session, texts with options, and errors as wrong input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def pairs_of(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the pairs in texts of the form NAME=VALUE.

    Raises:
        ValueError: when one has no equals sign.
    """
    pairs = [text.partition("=") for text in texts]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise ValueError(f"{option} {wrong[0]!r} must be of the form NAME=VALUE")
    return {name: value for name, _, value in pairs}


def session_of(name: str, confs: Sequence[str]) -> SparkSession:
    """Return the session of a program called ``name``, with confs of the form KEY=VALUE."""
    # Python workers must be this Python, or they cannot import what the user's function imports.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    for key, value in pairs_of("--conf", confs).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def spark_errors() -> Iterator[None]:
    """Let what Spark says of its input be wrong input."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise ValueError(str(error)) from error
