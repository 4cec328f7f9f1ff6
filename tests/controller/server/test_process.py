"""The command line, and a controller in a process of its own: started, stopped, killed."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from tidemark.controller.base.principal import is_loopback
from tidemark.controller.tools.cli import app
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import STREAM
from support.empty_store import put_sqlite
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.processes import serving
from support.reports import exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(8, 20))


def run(*arguments: str, **environment: str) -> Result:
    """Run the command line in this process: for what ends before anything is served."""
    return CliRunner().invoke(app, list(arguments), env=environment, prog_name="tidemark")


def send(client: httpx.Client, number: int) -> int:
    return client.post(STREAM + "/reports", json=to_json_object(REPORTS[number])).status_code


@pytest.mark.long
@pytest.mark.slow
def test_an_acknowledged_report_survives_kill_9_and_a_clean_stop_ends_in_time(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, client):
        # What is decided on fewer reports has no bound, and the next decision would not follow at once.
        assert [send(client, number) for number in range(5)] == [201] * 5
        client.put(STREAM + "/slo", json={"target_ppm": 500_000})
        client.put(STREAM + "/policy", json=at_once())
        until(lambda: client.get(STREAM + "/bound").json()["bound_ms"], "a bound")
        body = client.get(STREAM + "/bound").json()
        process.send_signal(signal.SIGKILL)
        process.wait()
    with serving(tmp_path) as (process, client):
        # What was acknowledged is there, once; what was not can be sent now.
        assert [send(client, number) for number in range(6)] == [200] * 5 + [201]
        assert client.get(STREAM).json()["evidence"]["batches"] == 6
        assert client.get(STREAM + "/bound").json()["generation"] >= body["generation"]
        assert client.get("/livez").is_success
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert process.returncode == 0
    with serving(tmp_path) as (_, client):
        assert client.get(STREAM).json()["evidence"]["batches"] == 6


@pytest.mark.long
@pytest.mark.slow
def test_two_hundred_who_wait_for_a_bound_stop_nobody_and_are_let_go_when_the_controller_stops(
    tmp_path: Path,
) -> None:
    async def watch(url: str, process: subprocess.Popen[str]) -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, limits=limits) as client:
            etag = (await client.get(STREAM + "/bound")).headers["etag"]
            asked = {"If-None-Match": etag, "Prefer": "wait=60"}
            held = [asyncio.create_task(client.get(STREAM + "/bound", headers=asked)) for _ in range(200)]
            async with asyncio.timeout(PATIENCE_S):
                while "tidemark_bounds_watched 200.0" not in (await client.get("/metrics")).text:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert (await client.get("/v1/fleet")).is_success
            assert not any(task.done() for task in held)
            process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*held)

    with serving(tmp_path) as (process, client):
        answers = asyncio.run(watch(str(client.base_url), process))
        process.wait(PATIENCE_S)
    # Whoever is not let go is cut off when the time for a clean stop is over.
    assert {answer.status_code for answer in answers} == {304}
    assert process.returncode == 0


def test_a_port_in_use_is_one_clear_line(database_url: str) -> None:
    put_sqlite(database_url)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", str(port), TIDEMARK_DATABASE_URL=database_url)
    assert done.exit_code == 2
    said = f"cannot listen on 127.0.0.1 port {port}: Address already in use; --port takes another one"
    assert done.stderr == f"tidemark: {said}\n"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense with a secret", "cannot be understood"),
        ("mysql://somebody:secret@host/name", "(postgresql://user@host/name) are supported"),
        ("sqlite:////no/such/folder/t.db", "there is no folder /no/such/folder"),
        ("sqlite://", "SQLite needs a file"),
    ],
)
def test_an_unusable_database_is_one_clear_line_without_its_password(
    tmp_path: Path, url: str, sentence: str
) -> None:
    done = run("serve", "--port", "0", TIDEMARK_DATABASE_URL=url)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_a_setting_that_is_not_valid_is_one_clear_line() -> None:
    done = run("serve", TIDEMARK_TICK_SECONDS="soon")
    assert done.exit_code == 2
    assert done.stderr.startswith("tidemark: TIDEMARK_TICK_SECONDS is 'soon': ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("db", False),
    ],
)
def test_only_this_machine_reaches_a_loopback_address(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.slow
def test_the_version_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--version").stdout.startswith("tidemark ")
    assert list(tmp_path.iterdir()) == []


# A module that cannot be imported stands for one that is not installed.
WITHOUT = (
    "import sys; sys.modules[{0!r}] = None; sys.argv = ['tidemark', *{1!r}]; "
    "from tidemark.controller.__main__ import main; main()"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "arguments", "body"),
    [
        (
            "click",
            ["status"],
            "tidemark: the command line needs click: pip install 'tidemark-streaming[controller]'\n",
        ),
        (
            "pyspark",
            ["demo"],
            "tidemark: `tidemark demo` needs pyspark: pip install 'tidemark-streaming[demo]'\n",
        ),
        (
            "pyspark",
            ["lint", "job.py"],
            "tidemark: `tidemark lint` needs pyspark: pip install 'tidemark-streaming[spark]'\n",
        ),
        (
            "pyarrow",
            ["backtest", "t.parquet"],
            "tidemark: `tidemark backtest` needs pyarrow: pip install 'tidemark-streaming[trace]'\n",
        ),
        (
            "pyarrow",
            ["curve", "t.parquet"],
            "tidemark: `tidemark curve` needs pyarrow: pip install 'tidemark-streaming[trace]'\n",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_installs_it(
    tmp_path: Path, missing: str, arguments: list[str], body: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing, arguments)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, body)
