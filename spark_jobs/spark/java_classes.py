"""The Java classes: from Tidemark's jar where that is on the class path, else compiled in the driver.

They are compiled by Janino, which Spark brings to compile the code that it generates, so neither a JDK nor the jar is
needed. What is compiled goes to the executors as a jar, which Spark adds to their class loaders and not to the
driver's: here it has one of its own. The classes are then in another package, a new one each time: a loader asks its
parent first, which may have a jar of another Tidemark, and Py4J knows a class by its name, which an earlier context of
the same JVM may have had.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import Column

from tidemark.spark_jobs.spark.jar import STAMP, built_of, java_sources, scala_of
from tidemark.spark_jobs.spark.jvm import COMPILER, PLACEMENT, Py4JJavaError, SparkContext, find, items

_PACKAGE = "tidemark"
_numbers = count(1)

_SOURCES = (
    "RowCounter",
    "BatchCounts",
    "SetBack",
    "BatchClock",
    "PlaceCounters",
    "WatermarkSteering",
    "ClosingMoment",
)
"""Files in ``java_sources``, in the order in which they need each other."""

_OPTIONAL = {"BatchClock", "PlaceCounters"}
"""They know the nodes of Spark's plans, which another Spark may have changed; the others do without them."""

_log = logging.getLogger("tidemark.spark")


@dataclass(frozen=True, slots=True)
class JavaClasses:
    """The classes, loaded in the driver."""

    context: SparkContext
    """The context whose executors have them."""
    loader: Any
    package: str
    """``tidemark``, or a package in it when they were compiled here."""
    sent: bool
    """Whether the executors have them for certain: Spark was started with the jar. Else that is to be tried."""

    def make(self, name: str, *arguments: Any) -> Any:
        """Return a new object of a class, nested ones after a ``$``; it has one constructor."""
        constructor = self.loader.loadClass(f"{self.package}.{name}").getConstructors()[0]
        return constructor.newInstance(java_array("java.lang.Object", arguments))

    def function(self, object_: Any, name: str, result: str, arguments: Sequence[Column]) -> Column:
        """Return what a function in Java returns for ``arguments``; Spark takes it for non-deterministic.

        So it is evaluated once for each row, and no filter and no projection is moved past it.

        Args:
            object_: the function, of as many arguments.
            name: its name in plans. Spark writes it into the code that it compiles, and compiles no code twice: all
                streams have the same one.
            result: the field of ``DataTypes`` with the type of its result.
            arguments: what it is called with.
        """
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
        of, spark_sql = jvm.java.lang.Class.forName, "org.apache.spark.sql"
        # By its types: Py4J may take another of the overloaded methods, for functions of Scala.
        types = [of(f"{spark_sql}.api.java.UDF{len(arguments)}"), of(f"{spark_sql}.types.DataType")]
        make = of(f"{spark_sql}.functions").getMethod("udf", java_array("java.lang.Class", types))
        kind = getattr(jvm.org.apache.spark.sql.types.DataTypes, result)
        made = make.invoke(None, java_array("java.lang.Object", [object_, kind]))
        columns = java_array(f"{spark_sql}.Column", [argument._jc for argument in arguments])  # noqa: SLF001
        return Column(made.asNondeterministic().withName(name).apply(columns))


def classes_of_jar(context: SparkContext) -> JavaClasses | None:
    """Return the classes of Tidemark's jar; None where the driver has no such jar.

    Raises:
        Py4JError: when the driver does not give what is in it.
        ValueError: when it was built of other sources, or for another Scala.
    """
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    stamp = loader.getResource(STAMP)
    if stamp is None:
        return None
    jar = stamp.getPath().partition("!")[0]
    sources = bytes(stamp.openStream().readAllBytes()).decode()
    expected = built_of(scala_of(jvm.scala.util.Properties.versionNumberString()))
    if sources != expected:
        raise ValueError(f"{jar} was built of {sources}, and this is {expected}")
    spark = context._jsc.sc()  # noqa: SLF001 - PySpark does not say which jars it has
    names = {path.rpartition("/")[2] for path in items(spark.listJars())}
    return JavaClasses(context, loader, _PACKAGE, sent=spark.isLocal() or jar.rpartition("/")[2] in names)


def compiled_classes(context: SparkContext) -> JavaClasses | None:
    """Compile the classes and send them to the executors of a context; return None where Spark has no such compiler.

    Raises:
        Py4JError: when they cannot be compiled.
        PySparkException: when Spark does not take the jar.
        OSError: when there is no place for the jar.
    """
    compiler = find(COMPILER)
    if compiler is None:
        return None
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    spark_loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader = spark_loader
    compiled: dict[str, bytes] = {}
    sources, package = java_sources(), f"{_PACKAGE}.compiled{next(_numbers)}"
    for name in _SOURCES:
        source = sources[f"{name}.java"].decode().replace(f"package {_PACKAGE};", f"package {package};", 1)
        one = compiler()
        one.setParentClassLoader(loader)
        try:
            one.cook(source)
        except Py4JJavaError as error:
            if name not in _OPTIONAL:
                raise
            _log.warning("running without %s: %s", PLACEMENT.without, error.java_exception.toString())
            continue
        loader, codes = one.getClassLoader(), one.getBytecodes()
        compiled |= {str(class_name): bytes(codes.get(class_name)) for class_name in codes.keySet().toArray()}
    jar = _jar(compiled)
    context._jsc.addJar(str(jar))  # noqa: SLF001 - PySpark has no method for it
    urls = java_array("java.net.URL", [jvm.java.io.File(str(jar)).toURI().toURL()])
    return JavaClasses(context, jvm.java.net.URLClassLoader(urls, spark_loader), package, sent=False)


def java_array(kind: str, values: Any) -> Any:
    """Return a Java array with ``values``.

    Args:
        kind: full name of the class of its elements, or of a primitive type.
    """
    made: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    for part in kind.split("."):
        made = getattr(made, part)
    array = SparkContext._gateway.new_array(made, len(values))  # type: ignore[union-attr]  # noqa: SLF001
    for position, value in enumerate(values):
        array[position] = value
    return array


def _jar(classes: dict[str, bytes]) -> Path:
    folder = tempfile.mkdtemp(prefix="tidemark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors may come for it until then
    jar = Path(folder, "tidemark.jar")
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in classes.items():
            archive.writestr(name.replace(".", "/") + ".class", code)
    return jar
