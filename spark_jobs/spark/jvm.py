"""PySpark's way to the JVM, where there is one: ``pyspark-client``, which is Spark Connect alone, has none.

What only some versions of Spark have is asked for, and not for Spark's number, as far as it can be: platforms number
their own builds.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pyspark

if hasattr(pyspark, "SparkContext"):
    from py4j.java_gateway import JavaClass, get_field
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkContext
else:

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Never raised: nobody asks a JVM."""

    class Py4JJavaError(Exception):  # type: ignore[no-redef]
        """Never raised either."""

    class JavaClass:  # type: ignore[no-redef]
        """Nothing is one."""

    class SparkContext:  # type: ignore[no-redef]
        """There is none."""

        _jvm = _gateway = None

    def get_field(java_object: object, field_name: str) -> object:
        """Never called."""
        raise NotImplementedError


def items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.length())]


def is_since(major: int, minor: int) -> bool:
    """Return whether this is PySpark of a version or a later one."""
    numbers = re.findall(r"\d+", pyspark.__version__)
    return (int(numbers[0]), int(numbers[1])) >= (major, minor)


def has_read_limits() -> bool:
    """Return whether streaming sources in Python can be asked for a part of what there is (PySpark 4.2)."""
    return find_spec("pyspark.sql.streaming.datasource") is not None


__all__ = ["JavaClass", "Py4JError", "Py4JJavaError", "SparkContext", "get_field"]
