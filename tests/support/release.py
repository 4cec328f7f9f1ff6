"""What a release is made of besides wheel, sdist, archive and jars, and the trial of what is in ``dist``.

    make release

The trial uses no file of the tree: in empty folders, on every version of Python that is here, it installs the wheel as
a stranger does, with the newest packages that its extras take, and runs it. Once it installs the wheel with the
packages of the lock file, runs the demonstration there, and lists these packages in an SBOM (CycloneDX).
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from support.patience import until_ready
from support.provenance import SUMS, commit_of_tree, sign, write_provenance, write_sums
from support.tree import ROOT

__all__ = [
    "LOCKS",
    "UV",
    "environment_in",
    "install",
    "interpreter_of",
    "packed_chart",
    "run",
    "serving",
    "version_of_tree",
]

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = "controller,spark,kafka"
LOCKS = ROOT / "deploy" / "requirements"
UV = Path(sys.prefix, "bin", "uv")

JARS = """
import tidemark.spark_jobs.adaptive
from tidemark.spark_jobs.spark.jar import FOLDER, NAME, installed_jar
print(installed_jar().name)
assert {jar.name.split("-")[1] for jar in FOLDER.glob("*.jar")} == {"spark_2.12", "spark_2.13"}, list(FOLDER.iterdir())
"""
"""Fails where a jar is missing, or is not of the wheel's own sources."""


def version_of_tree() -> str:
    """Return the version in ``pyproject.toml``.

    Raises:
        SystemExit: when this commit has a tag of another version.
    """
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    tags = run("git", "tag", "--points-at", "HEAD", "--list", "v*", cwd=ROOT).split()
    if tags and f"v{version}" not in tags:
        sys.exit(f"this commit is tagged {', '.join(tags)}, but pyproject.toml says {version}")
    return version


def packed_chart(chart: Path, out: Path) -> Path:
    """Write the chart as `helm package` lays it out; the same chart gives the same bytes."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    left_out = (chart / ".helmignore").read_text(encoding="utf-8").split()
    package = out / f"{about['name']}-{about['version']}.tgz"
    # Links lead out of the chart, and what they lead to belongs to it.
    found = (Path(folder, name) for folder, _, names in os.walk(chart, followlinks=True) for name in names)
    with (
        package.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        # Helm wants Chart.yaml first.
        for path in sorted(found, key=lambda path: (path.name != "Chart.yaml", path)):
            if any(path.match(pattern) for pattern in left_out):
                continue
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"{about['name']}/{path.relative_to(chart).as_posix()}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return package


def _clean() -> dict[str, str]:
    """Return this process's environment without what leads back to this tree."""
    ours = ("PYTHON", "TIDEMARK_", "SPARK_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command in ``cwd``; return what it prints.

    Raises:
        SystemExit: when it fails, with what it printed.
    """
    done = subprocess.run(command, cwd=cwd, env=_clean(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def interpreter_of(version: str) -> str | Path | None:
    """Return what uv takes for a Python of a version; None where there is none.

    In CI the newest Python, where it is not there, comes from Debian's next release: a folder with that release, whose
    interpreter and libraries are used from outside.
    """
    here = subprocess.run(
        [UV, "python", "find", "--no-python-downloads", version], capture_output=True, text=True, check=False
    )
    if here.returncode == 0:
        return here.stdout.strip()
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemark" / f"python-{version}"
    )
    python = folder / "usr" / "bin" / f"python{version}"
    debootstrap, patchelf = shutil.which("debootstrap"), shutil.which("patchelf")
    if not python.is_file() and os.environ.get("CI") == "true" and debootstrap and patchelf:
        shutil.rmtree(folder, ignore_errors=True)
        made = folder.with_suffix(".made")
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        packages = f"python{version},python{version}-venv"
        run(debootstrap, "--variant=minbase", f"--include={packages}", "sid", made, cwd=made.parent)
        libraries = folder / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
        (linker,) = (made / "usr" / "lib64").glob("ld-linux*")
        paths = (
            "--set-interpreter",
            folder / "usr" / "lib64" / linker.name,
            "--force-rpath",
            "--set-rpath",
            libraries,
        )
        run(patchelf, *paths, made / "usr" / "bin" / f"python{version}", cwd=made.parent)
        made.rename(folder)
    return python if python.is_file() else None


def environment_in(folder: Path, python: str | Path) -> Path:
    """Make an empty virtual environment in ``folder``; return its interpreter."""
    run(UV, "venv", "--quiet", "--no-python-downloads", "--python", python, folder / "venv", cwd=folder)
    return folder / "venv" / "bin" / "python"


def install(python: Path, *arguments: str | Path) -> None:
    """Install packages into the environment of an interpreter."""
    run(UV, "pip", "install", "--quiet", "--python", python, *arguments, cwd=python.parent)


def _try(python: Path, version: str) -> None:
    """Run what is installed beside ``python``, in an empty folder.

    Raises:
        SystemExit: when a command fails.
        AssertionError: when it is not this version, or the controller does not become ready.
    """
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name)
        printed = run(python.with_name("tidemark"), "--version", cwd=empty).strip()
        assert printed == f"tidemark {version}", printed
        print(f"  {printed}, {run(python, '-c', JARS, cwd=empty).strip()}", flush=True)
        with serving(python, empty):
            print("  the controller is ready", flush=True)


@contextmanager
def serving(python: Path, empty: Path) -> Iterator[str]:
    """Run the controller that is installed beside ``python`` in an empty folder, once it is ready; yield its address.

    Raises:
        AssertionError: when it does not become ready.
    """
    log = empty / "log"
    with log.open("wb") as errors:
        server = subprocess.Popen(
            [python.with_name("tidemark"), "serve", "--port", "0"],
            cwd=empty,
            env=_clean(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert "listening on http://" in line, line + log.read_text(encoding="utf-8")
        url = line.split()[3].rstrip(",")
        until_ready(f"{url}/readyz", server, log)
        yield url
    finally:
        server.terminate()
        server.communicate()


def _main(dist: Path, key: str | None = None) -> None:
    version, commit = version_of_tree(), commit_of_tree()
    (wheel,) = dist.glob(f"tidemark_streaming-{version}-*.whl")
    packed_chart(ROOT / "deploy" / "helm" / "tidemark", dist)
    with tempfile.TemporaryDirectory(prefix="tidemark-release-") as name:
        for python in PYTHONS:
            interpreter = interpreter_of(python)
            if interpreter is None:
                print(f"there is no Python {python} here, so the wheel is not tried on it", flush=True)
                continue
            folder = Path(name, python)
            folder.mkdir()
            environment = environment_in(folder, interpreter)
            print(f"Python {python}: tidemark-streaming[{EXTRAS}] with the newest packages", flush=True)
            install(environment, f"tidemark-streaming[{EXTRAS}] @ {wheel.as_uri()}")
            _try(environment, version)
        locked, lister = Path(name, "locked"), Path(name, "lister")
        locked.mkdir()
        lister.mkdir()
        print(
            "tidemark-streaming[demo] with the packages of the lock file, and its demonstration", flush=True
        )
        environment = environment_in(locked, sys.executable)
        install(environment, "--require-hashes", "-r", LOCKS / "build.txt")
        install(environment, "--require-hashes", "--no-build-isolation", "-r", LOCKS / "demo.txt")
        # Nothing else may be needed than what is locked, and only here is this version to be had.
        install(environment, "--no-index", "--find-links", dist, f"tidemark-streaming[demo]=={version}")
        _try(environment, version)
        print(run(environment.with_name("tidemark"), "demo", cwd=locked), flush=True)
        tool = environment_in(lister, sys.executable)
        install(tool, "--require-hashes", "-r", LOCKS / "release.txt")
        run(
            *(tool.with_name("cyclonedx-py"), "environment", "--output-reproducible"),
            *("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library"),
            *("--output-file", dist / f"tidemark-{version}.cdx.json", environment),
            cwd=lister,
        )
    write_provenance(dist, version, commit)
    write_sums(dist)
    print((dist / SUMS).read_text(encoding="utf-8"), end="")
    if key is None:
        print(
            f"not signed: name the releaser's key, `make release SIGN_KEY=~/.ssh/id_ed25519`, to sign {SUMS}"
        )
    else:
        sign(dist / SUMS, Path(key).expanduser().resolve())


if __name__ == "__main__":
    _main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
