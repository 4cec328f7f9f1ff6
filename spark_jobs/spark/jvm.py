"""PySpark's way to the JVM, and the classes there that Tidemark uses beyond the public interfaces.

``pyspark-client``, which is Spark Connect alone, has no JVM. Spark is asked for what it has, not for its number, as far
as it can be: platforms number their own builds.

Their places differ between versions. ``find`` takes the one that this Spark has; where it has none, the driver says so
once and goes on without. A test asks each version of Spark for all of them, with their members and with what is reached
through objects (``tests/support/private_names.py``), and ``docs/reference/spark.md`` lists them.

From Python they are reached by ``SparkContext._jvm``, ``SparkSession._jsparkSession``, ``DataFrame._jdf``,
``DataStreamReader._jreader`` and ``StreamingQuery._jsq``. Nodes and expressions of plans are asked by name
(``event_time``, ``query_plan``, ``downstream``, ``joins``), and one that cannot be read is a plan that is not
recognised.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
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


_SQL = "org.apache.spark.sql"
_STREAMING = f"{_SQL}.execution.streaming"
_CATALYST = f"{_SQL}.catalyst"
_log = logging.getLogger("tidemark.spark")


@dataclass(frozen=True, slots=True)
class PrivateName:
    """A class of Spark's, and what of it is used."""

    places: tuple[str, ...]
    """Its full names, that of the newest Spark first."""
    members: tuple[str, ...]
    """Its methods that are used, with a newer and an older name parted by a stroke; none of one that is made, or is a
    constant."""
    without: str
    """What Tidemark runs without when this Spark does not have it, and what it does instead."""


def named(without: str, name: str, members: str = "", older: str | None = None) -> PrivateName:
    """Return a private name: its newest place, its members parted by spaces, and its place in an older Spark."""
    return PrivateName((name,) if older is None else (name, older), tuple(members.split()), without)


_RESTART = "the place between two batches; a query is restarted in a gap between two, if there is one"
_REJECTION = "a way to end a query that must not run; the log says why, and its rows are not judged"
_JOINS = "the check of joins"
_ATTACHING = "the watermarks of jobs that do not call adaptive_watermark; such queries run as they are"
_METRICS = "late rows and the bound among Spark's metrics of a query"

LISTENER = named(
    "events as JSON; PySpark's own listener takes a hundred times as long and fails on queries with job tags",
    f"{_SQL}.streaming.PythonStreamingQueryListenerWrapper",
)
FAILURE = named(_REJECTION, f"{_SQL}.streaming.StreamingQueryException")
INITIALIZING = named(_REJECTION, f"{_STREAMING}.runtime.INITIALIZING$", older=f"{_STREAMING}.INITIALIZING$")
TERMINATED = named(_RESTART, f"{_STREAMING}.runtime.TERMINATED$", older=f"{_STREAMING}.TERMINATED$")
ACTIVE = named(_RESTART, f"{_STREAMING}.runtime.ACTIVE$", older=f"{_STREAMING}.ACTIVE$")
CHECKPOINT_FILES = named(
    "files beside a checkpoint, and so without late rows that are kept and without what live policies had learned",
    f"{_STREAMING}.checkpointing.CheckpointFileManager",
    "create createAtomic",
    f"{_STREAMING}.CheckpointFileManager",
)
JOIN_HELPER = named(
    _JOINS,
    f"{_STREAMING}.operators.stateful.join.StreamingSymmetricHashJoinHelper",
    "getStateWatermark",
    f"{_STREAMING}.StreamingSymmetricHashJoinHelper",
)
COMPILER = named(
    "classes in Java, and so without Live; rows are counted by observe, which costs three times as much",
    "org.codehaus.janino.SimpleCompiler",
    "setParentClassLoader cook getClassLoader getBytecodes",
)
_PLACES = "row counters where rows are judged; where filters, joins or generators change them behind the call, none is"
PLACEMENT = named(_PLACES, f"{_CATALYST}.rules.Rule", "apply")
DATASET = named(_ATTACHING, f"{_SQL}.classic.Dataset", "ofRows", f"{_SQL}.Dataset")
WATERMARK = named(
    _ATTACHING, f"{_CATALYST}.plans.logical.EventTimeWatermark", "getDelayMs eventTime delay child"
)
GAUGE = named(_METRICS, "com.codahale.metrics.DefaultSettableGauge", "setValue")
PROJECT = named(_PLACES, f"{_CATALYST}.plans.logical.Project", "projectList withNewChildren output")
ALIAS = named(_PLACES, f"{_CATALYST}.expressions.Alias", "child name exprId toAttribute")
_said: set[PrivateName] = set()


def find(name: PrivateName) -> Any:
    """Return a class in the JVM; None where this Spark has it in none of its places, which is logged once."""
    for place in name.places:
        member: Any = SparkContext._jvm  # noqa: SLF001 - see the module's docstring
        for part in place.split("."):
            member = getattr(member, part)
        if isinstance(member, JavaClass):
            return member
    if name not in _said:
        _said.add(name)
        _log.warning("running without %s: this Spark has no %s", name.without, " and no ".join(name.places))
    return None


def constant(name: PrivateName) -> Any:
    """Return a Scala object in the JVM; None as ``find`` does."""
    companion = find(name)
    return None if companion is None else getattr(companion, "MODULE$")


def member_of(node: Any, name: str, older: str) -> str:
    """Return by which of two names an object of the JVM has a method."""
    return name if name in dir(node) else older


def with_ids(old: Any, made: Any) -> Any:
    """Return a plan whose columns have the expression ids that the nodes above know."""
    before, now = items(old.output()), items(made.output())
    if [_kind(column) for column in before] != [_kind(column) for column in now]:
        raise ValueError(f"other columns: {made.output().toString()} instead of {old.output().toString()}")
    if all(was.exprId().equals(this.exprId()) for was, this in zip(before, now, strict=True)):
        return made
    columns = [
        this if was.exprId().equals(this.exprId()) else aliased(this, this.name(), was, None)
        for was, this in zip(before, now, strict=True)
    ]
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    return find(PROJECT)(jvm.PythonUtils.toSeq(columns), made)


def _kind(column: Any) -> tuple[str, str]:
    return column.name(), column.dataType().json()


def aliased(child: Any, name: str, as_: Any, metadata: Any | None) -> Any:
    """Return an expression as a column with the name, and the id of another one."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    none = jvm.PythonUtils.toSeq([])
    return find(ALIAS)(child, name, as_.exprId(), as_.qualifier(), jvm.scala.Option.apply(metadata), none)


__all__ = ["JavaClass", "Py4JError", "Py4JJavaError", "SparkContext", "get_field"]
