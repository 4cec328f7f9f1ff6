"""The command line in this process, so that a test's own session of Spark serves it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from tidemark.controller.tools.cli import app


def exit_code(*words: str, given: Sequence[str]) -> int:
    """Run a command, which prints where this process prints, and return its exit code.

    It gives the session its own name, from which jobs without one take theirs; here that is taken back.
    """
    # The active one may be none, where a test has asked for no session yet.
    session = SparkSession._instantiatedSession
    name = None if session is None else session.conf.get("spark.app.name")
    try:
        with pytest.raises(SystemExit) as end:
            app([*words, *given], prog_name="tidemark")
    finally:
        if session is not None and name is not None:
            session.conf.set("spark.app.name", name)
    assert isinstance(end.value.code, int)
    return end.value.code
