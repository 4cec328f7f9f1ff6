"""The kinds of nodes that are stateful operators, which Python and Java each have to know."""

from __future__ import annotations

import re

from tidemark.spark_jobs.spark.stateful import _OPERATORS

from support.tree import ROOT


def test_java_takes_the_same_nodes_for_stateful_operators_as_python() -> None:
    """A join is one where both sides are streams, and an optimized plan has no ``Distinct``."""
    (java,) = ROOT.glob("spark_jobs/**/PlaceCounters.java")
    (names,) = re.findall(r"HashSet STATEFUL = .*?\{(.*?)\}", java.read_text(encoding="utf-8"), re.DOTALL)
    assert set(re.findall(r'"(\w+)"', names)) == set(_OPERATORS) - {"Join", "Distinct"}
