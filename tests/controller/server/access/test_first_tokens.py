"""The tokens that a new store begins with: on both databases, by several replicas, and what is refused."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.errors import TokenConflictError
from tidemark.controller.base.principal import ROLES, Grant, Role
from tidemark.controller.base.token_format import SECRET_BYTES, is_token, make_token, role_of
from tidemark.controller.server.access import token_store
from tidemark.controller.server.access.token_store import (
    FirstTokensError,
    NewToken,
    list_tokens,
    read_first_tokens,
    take_first_tokens,
)
from tidemark.controller.tools.cli import app

from support.controller_app import Controller
from support.empty_store import open_empty, put_sqlite
from support.tokens import bearer

NOW_US = 1_767_225_600_000_000


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty database, on each kind of store."""
    found: str = request.getfixturevalue("database_url" if request.param == "sqlite" else "new_postgres_url")
    return found


def files(folder: Path, **roles: Role) -> dict[str, str]:
    """Write a file for each token, as a mounted Secret has them, and return the tokens by name."""
    folder.mkdir()
    made = {name: make_token(role, secrets.token_bytes(SECRET_BYTES)) for name, role in roles.items()}
    (folder / "..data").mkdir()
    for name, token in made.items():
        (folder / "..data" / name).write_text(token + "\n", encoding="ascii")
        (folder / name).symlink_to(Path("..data") / name)
    return made


def names(database: Database) -> list[tuple[str, str, tuple[str, ...]]]:
    with database.read() as session:
        return [(row.name, row.grant.role, row.grant.jobs) for row in list_tokens(session, 0, 100)]


def test_a_new_store_takes_each_file_as_a_token_and_an_old_one_looks_at_none(
    url: str, tmp_path: Path
) -> None:
    made = files(tmp_path / "t", shop="job", prometheus="viewer", root="admin")
    with Controller(url) as controller:
        database = controller.service.database
        assert take_first_tokens(database, tmp_path / "t", NOW_US) == 3
        assert names(database) == [
            ("root", "admin", ("*",)),
            ("prometheus", "viewer", ("*",)),
            ("shop", "job", ("*",)),
        ]
        controller.service.authenticator.forget()
        answers = {
            name: controller.http.get("/v1/fleet", headers=bearer(token)).status_code
            for name, token in made.items()
        }
        assert answers == {"root": 200, "prometheus": 200, "shop": 403}
        body = controller.http.get("/v1/tokens/1", headers=bearer(made["root"])).json()
        assert body["created_by"] == f"the files in {tmp_path / 't'}"
        events = controller.http.get("/v1/events", headers=bearer(made["root"])).json()["events"]
        assert {(one["kind"], one["by"]) for one in events} == {("TokenMade", body["created_by"])}

        (tmp_path / "t" / "root").unlink()
        (tmp_path / "t" / "other").write_text("no token at all")
        assert take_first_tokens(database, tmp_path / "t", NOW_US) == 0
        assert take_first_tokens(database, tmp_path / "gone", NOW_US) == 0
        assert len(names(database)) == 3


def test_tokens_that_have_all_ended_do_not_come_back_with_a_restart(url: str, tmp_path: Path) -> None:
    made = files(tmp_path / "t", root="admin")
    with Controller(url) as controller:
        database = controller.service.database
        assert take_first_tokens(database, tmp_path / "t", NOW_US) == 1
        token_store.revoke(database, 1, "kim", NOW_US)
        assert take_first_tokens(database, tmp_path / "t", NOW_US) == 0
        controller.service.authenticator.forget()
        assert controller.http.get("/v1/fleet", headers=bearer(made["root"])).status_code == 401


@pytest.mark.slow
def test_of_replicas_that_start_together_one_takes_the_files(url: str, tmp_path: Path) -> None:
    files(tmp_path / "t", root="admin", prometheus="viewer")
    with closing(Database(url)) as database:
        database.migrate()

    def start(_: int) -> int:
        database = Database(url)
        try:
            database.migrate()
            return take_first_tokens(database, tmp_path / "t", NOW_US)
        finally:
            database.close()

    with ThreadPoolExecutor(8) as replicas:
        taken = list(replicas.map(start, range(8)))
    assert sorted(taken) == [0] * 7 + [2]
    with closing(Database(url)) as database:
        assert [name for name, _, _ in names(database)] == ["root", "prometheus"]


def test_without_an_admins_token_nothing_is_taken(url: str, tmp_path: Path) -> None:
    files(tmp_path / "t", prometheus="viewer")
    database = open_empty(url)
    with pytest.raises(TokenConflictError, match="the first token must be an admin's"):
        take_first_tokens(database, tmp_path / "t", NOW_US)
    assert names(database) == []
    database.close()


def test_without_a_folder_nothing_is_done(url: str) -> None:
    database = open_empty(url)
    assert take_first_tokens(database, None, NOW_US) == 0
    token_store.make(database, NewToken("root", Grant("admin", ("*",))), "kim", NOW_US)
    database.close()


@pytest.mark.parametrize(
    "content", ["", "nonsense", "{token}x", "{token} {token}", "{token}\n{token}", "é", "{cut}"]
)
def test_a_file_that_holds_no_token_is_named_and_not_shown(tmp_path: Path, content: str) -> None:
    token = make_token("admin", bytes(SECRET_BYTES))
    text = content.format(token=token, cut=token[:-1])
    (tmp_path / "root").write_text(text, encoding="utf-8")
    with pytest.raises(FirstTokensError) as caught:
        read_first_tokens(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "a" * 65, "a:b"])
def test_a_file_whose_name_no_holder_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(make_token("admin", bytes(SECRET_BYTES)))
    with pytest.raises(FirstTokensError, match="its name becomes the token's"):
        read_first_tokens(tmp_path)


def test_an_empty_or_missing_folder_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(FirstTokensError, match=r"holds no file; add one for each token.*tidemark token mint"):
        read_first_tokens(tmp_path)
    with pytest.raises(FirstTokensError, match="gone cannot be read: No such file"):
        read_first_tokens(tmp_path / "gone")


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env=environment, prog_name="tidemark")


@pytest.mark.parametrize("role", ROLES)
def test_a_minted_token_is_a_new_one_of_its_role_alone_on_standard_output(role: Role) -> None:
    one, other = (run("token", "mint", "--role", role).stdout for _ in range(2))
    assert one != other
    assert one.endswith("\n")
    assert is_token(one.strip())
    assert role_of(one.strip()) == role


def test_serve_says_in_one_line_which_file_is_no_token(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "root").write_text("secret")
    store = f"sqlite:///{tmp_path / 't.db'}"
    put_sqlite(store)
    done = run(
        *("serve", "--host", "0.0.0.0", "--port", "0", "--database-url", store),
        TIDEMARK_FIRST_TOKENS=str(folder),
    )
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tidemark: TIDEMARK_FIRST_TOKENS: {folder / 'root'} holds no token")
    assert "secret" not in line


def test_settings_show_the_folder(tmp_path: Path) -> None:
    lines = run("settings", TIDEMARK_FIRST_TOKENS=str(tmp_path)).stdout.splitlines()
    assert [line.split() for line in lines if "first_tokens" in line] == [
        ["first_tokens", str(tmp_path), "environment"]
    ]
