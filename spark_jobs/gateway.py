"""PySpark's way to the JVM, where there is one: ``pyspark-client``, which is Spark Connect alone, has none."""

from __future__ import annotations

import pyspark

__all__ = ["JavaClass", "Py4JError", "Py4JJavaError", "SparkContext", "get_field"]

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
