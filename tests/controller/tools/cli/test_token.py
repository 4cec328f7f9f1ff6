"""``tidemark token``: against a real server, and directly in a store; and a server that others could reach."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result

from tidemark.controller.base.token_format import is_token
from tidemark.controller.tools.cli import app
from tidemark.spark_jobs.core.client import ControllerClient, TokenRejected

from support.controller_app import Controller
from support.empty_store import put_sqlite
from support.patience import PATIENCE_S
from support.reports import exponential_batches, query_reports
from support.served import served
from support.tokens import bearer, make_token

REPORTS = query_reports(exponential_batches(2, 20))
Tidemark = Callable[..., Result]


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"TIDEMARK_TOKEN": "", **environment})


@pytest.fixture
def url(controller: Controller) -> Iterator[str]:
    """Return the address of a controller behind a real socket."""
    with served(controller.app) as address:
        yield address


def said(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def refusal(result: Result) -> str:
    assert result.exit_code != 0
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_the_first_token_is_made_in_the_store_and_opens_the_controller(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 't.db'}"
    made = run("token", "create", "--role", "admin", "--database-url", store)
    (token,) = said(made)
    assert is_token(token)
    assert made.stderr.splitlines() == [
        "token 1: admin, admin of *, valid without end; it is shown only once",
        "from now on every request needs a token, those of running jobs too",
    ]
    with Controller(store) as controller, served(controller.app) as url:
        assert run("token", "list", "--url", url).exit_code != 0
        _, line = said(run("token", "list", "--url", url, TIDEMARK_TOKEN=token))
        assert line.split("  ")[0] == "1"
        assert "admin" in line
        assert "valid without end" in line
        body = controller.http.get("/v1/tokens/1", headers=bearer(token)).json()
        assert body["created_by"].endswith(" at the store")
        _, line = said(run("events", "--url", url, TIDEMARK_TOKEN=token))
        assert "TokenMade" in line
        assert f"{body['created_by']}  token 1 of 'admin': role admin, every job" in line


def test_the_first_of_all_in_a_store_must_be_an_admins_too(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 't.db'}"
    put_sqlite(store)
    line = refusal(run("token", "create", "shop", "--role", "job", "--database-url", store))
    assert "the first token must be an admin's" in line


@pytest.mark.parametrize("by", ["variable", "file"])
def test_where_the_surroundings_name_a_store_tokens_are_made_there(
    database_url: str, tmp_path: Path, by: str
) -> None:
    """As in the container of the controller."""
    file = tmp_path / "tidemark.toml"
    file.write_text(f"database_url = '{database_url}'\n")
    named = {"TIDEMARK_DATABASE_URL": database_url} if by == "variable" else {"TIDEMARK_CONFIG": str(file)}
    said(run("token", "create", "root", "--role", "admin", **named))
    second = run("token", "create", "root", "--role", "admin", "--database-url", database_url)
    assert second.stderr.startswith("token 2: root, admin of *")


def test_an_address_or_a_token_goes_before_the_store_that_the_surroundings_name(
    database_url: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    for given in (["--url", "http://127.0.0.1:1"], ["--token-file", str(token)]):
        done = run("token", "create", "--role", "admin", *given, TIDEMARK_DATABASE_URL=database_url)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "http://127.0.0.1" in done.stderr


def test_a_misspelt_variable_is_said_before_a_token_is_made_in_another_store(database_url: str) -> None:
    named = {"TIDEMARK_DATABASE_URL": database_url, "TIDEMARK_DATABASE_URI": "x"}
    assert "did you mean TIDEMARK_DATABASE_URL?" in refusal(
        run("token", "create", "--role", "admin", **named)
    )


def test_create_list_rotate_and_revoke(controller: Controller, url: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(make_token(controller) + "\n")
    at = ["--url", url, "--token-file", str(file)]
    (first,) = said(
        run(
            "token",
            "create",
            "shop",
            "--role",
            "job",
            "--job",
            "shop-*",
            "--job",
            "a",
            "--expires",
            "90 days",
            *at,
        )
    )
    (second,) = said(run("token", "rotate", "shop", *at))
    assert first != second
    *_, older_line, newer_line = said(run("token", "list", *at))
    for line in (older_line, newer_line):
        assert re.search(r"\d +shop +job +shop-\*, a +valid until \d{4}-", line)
    found = json.loads("\n".join(said(run("token", "list", "--json", *at))))["tokens"]
    older, newer = (row["id"] for row in found if row["name"] == "shop")
    assert said(run("token", "revoke", "shop", *at)) == [
        f"revoked token {older} of shop",
        f"token {newer} of shop is still valid",
    ]
    assert "revoked" in said(run("token", "list", *at))[-2]
    as_yaml = yaml.safe_load("\n".join(said(run("token", "list", "-o", "yaml", *at))))
    assert [row["name"] for row in as_yaml["tokens"]][-2:] == ["shop", "shop"]
    line = refusal(run("token", "revoke", "shop", "--id", str(older), *at))
    assert f"no valid token of 'shop' has the number {older}" in line
    body = json.loads("\n".join(said(run("token", "revoke", "shop", "--id", str(newer), "--json", *at))))
    assert (body["id"], body["live"]) == (newer, False)
    assert "there is no valid token of 'shop'" in refusal(run("token", "revoke", "shop", *at))


def test_what_is_rejected_is_one_line(controller: Controller, url: str) -> None:
    viewer = make_token(controller, "viewer", name="kim")
    body = refusal(run("token", "list", "--url", url, TIDEMARK_TOKEN=viewer))
    assert "this needs the role admin, and 'kim' has the role viewer" in body
    admin = make_token(controller)
    body = refusal(
        run("token", "create", "x", "--role", "job", "--job", "a/b", "--url", url, TIDEMARK_TOKEN=admin)
    )
    assert "matches no job" in body
    body = refusal(
        run("token", "create", "x", "--role", "job", "--expires", "soon", "--url", url, TIDEMARK_TOKEN=admin)
    )
    assert "soon" in body


# -- the job's own client --------------------------------------------------------------------------------------------


def test_a_job_reports_and_asks_with_its_token_and_takes_up_a_rotated_one_without_a_restart(
    controller: Controller, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEMARK_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text(make_token(controller, "job", "job") + "\n")
    client = ControllerClient(url, file, timeout_s=PATIENCE_S)
    client.report(REPORTS[0])
    assert client.bound("job", "stream").job == "job"
    with pytest.raises(TokenRejected, match="out of reach"):
        client.bound("other", "stream")
    controller.http.delete("/v1/tokens/2", headers=bearer(make_token(controller)))
    with pytest.raises(TokenRejected, match="not valid"):
        client.report(REPORTS[1])
    file.write_text(make_token(controller, "job", "j*b"))
    client.report(REPORTS[1])
    with pytest.raises(TokenRejected, match="no token was sent"):
        ControllerClient(url, timeout_s=PATIENCE_S).report(REPORTS[1])
    monkeypatch.setenv("TIDEMARK_TOKEN", make_token(controller, "viewer"))
    with pytest.raises(TokenRejected, match="this needs the role job or admin"):
        ControllerClient(url, timeout_s=PATIENCE_S).report(REPORTS[1])
    monkeypatch.delenv("TIDEMARK_TOKEN")


# -- a server that others could reach --------------------------------------------------------------------------------


def test_serve_refuses_to_listen_for_others_without_a_token_and_says_the_way_out(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 't.db'}"
    put_sqlite(store)
    line = refusal(run("serve", "--host", "0.0.0.0", "--port", "0", "--database-url", store))
    assert "0.0.0.0 can be reached by others, and there is no token yet" in line
    assert "tidemark token create root --role admin --database-url" in line
    assert "TIDEMARK_PROXY_USER_HEADER" in line


def tokens_missing(folder: Path) -> dict[str, str]:
    (folder / "tokens").mkdir()
    return {"TIDEMARK_FIRST_TOKENS": str(folder / "tokens")}


@pytest.mark.long
@pytest.mark.parametrize("fault", ["no token", "the port is taken", "no first token"])
def test_a_server_that_does_not_start_leaves_a_store_that_the_next_command_takes(
    tmp_path: Path, fault: str
) -> None:
    store = f"sqlite:///{tmp_path / 't.db'}"
    put_sqlite(store)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options, environment = {
            "no token": (["--host", "0.0.0.0", "--port", "0"], {}),
            "the port is taken": (["--port", str(taken.getsockname()[1])], {}),
            "no first token": (["--port", "0"], tokens_missing(tmp_path)),
        }[fault]
        command = [sys.executable, "-m", "tidemark.controller", "serve", *options, "--database-url", store]
        ended = subprocess.run(
            command, env={"PATH": "", **environment}, cwd=tmp_path, check=False, timeout=60
        )
    assert ended.returncode == 2
    assert said(run("token", "create", "root", "--role", "admin", "--database-url", store))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_serve_starts_for_others_with_a_token_and_for_this_machine_without_and_says_so(
    tmp_path: Path, host: str
) -> None:
    store = f"sqlite:///{tmp_path / 't.db'}"
    token = (
        said(run("token", "create", "--role", "admin", "--database-url", store))[0]
        if host == "0.0.0.0"
        else ""
    )
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tidemark.controller", "serve"),
            *("--port", "0", "--host", host, "--database-url", store),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={
            "PATH": "",
            "TIDEMARK_LOG_FORMAT": "json",
            "TIDEMARK_LOG_LEVEL": "debug",
            "PYTHONUNBUFFERED": "1",
        },
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split(",")[0].rpartition(":")[2])
        transport = httpx.HTTPTransport(retries=5)
        with httpx.Client(
            transport=transport, base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S
        ) as client:
            without = client.get("/v1/fleet").status_code
            good = client.get("/v1/fleet", headers=bearer(token)).status_code if token else 200
            # The server itself must not believe whoever says where he comes from.
            forged = client.get("/v1/fleet", headers={"X-Forwarded-For": "127.0.0.1"}).status_code
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE_S)
    lines = [json.loads(line) for line in errors.splitlines()]
    warned = [line["event"] for line in lines if line["level"] == "warning"]
    assert good == 200
    if host == "127.0.0.1":
        assert (without, forged) == (200, 200)
        assert warned == [
            "no token is set: everybody on this machine may do everything (tidemark token create)"
        ]
    else:
        assert (without, forged) == (401, 401)
        (plain,) = warned
        assert plain.startswith("tokens come over plain HTTP")
    assert token not in errors or not token
    assert next(line["status"] for line in lines if line["event"] == "request") == without
    assert any(line["logger"].startswith("uvicorn") for line in lines)
