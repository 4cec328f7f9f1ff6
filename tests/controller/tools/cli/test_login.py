"""``tidemark login``: by the device flow of a real issuer on loopback; the token that is kept, sent and renewed."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.client import sign_in as signing_in

from support.controller_app import Controller
from support.issuer import Issuer, running_issuer, write_issuers
from support.served import served
from support.tokens import make_token

GIVEN = {
    "device_code": "long and secret",
    "user_code": "ABCD-EFGH",
    "verification_uri": "https://id.example/device",
    "verification_uri_complete": "https://id.example/device?code=ABCD-EFGH",
    "expires_in": 600,
    "interval": 5,
}
Run = Callable[..., Result]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        running.answers["/device"] = [GIVEN]
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of the device flow, which take no time here."""
    found: list[float] = []
    monkeypatch.setattr(signing_in, "time", SimpleNamespace(sleep=found.append))
    return found


@pytest.fixture
def run(issuer: Issuer, tmp_path: Path, pauses: list[float]) -> Iterator[Run]:
    """Return what runs a command at a controller that trusts the issuer, as a user with a home of his own."""
    table = {"issuer": issuer.url, "audience": "tidemark", "group_roles": "sre=admin", "client_id": "cli"}
    file = write_issuers(tmp_path, idp=table)
    with (
        Controller(f"sqlite:///{tmp_path / 't.db'}", issuers_file=file) as controller,
        served(controller.app) as url,
    ):

        def command(*arguments: str, **environment: str) -> Result:
            given = {"XDG_STATE_HOME": str(tmp_path / "home"), "TIDEMARK_TOKEN": "", "TIDEMARK_URL": url}
            return CliRunner().invoke(app, list(arguments), env={**given, **environment})

        yield command


def _granted(issuer: Issuer, lifetime_s: float = 300, **more: object) -> dict[str, object]:
    token = issuer.token("kim", groups=["sre"])
    return {"access_token": token, "expires_in": lifetime_s, "refresh_token": "first", **more}


def _files(folder: Path) -> list[Path]:
    return sorted((folder / "home").rglob("*.json"))


def test_a_person_signs_in_with_the_address_of_the_controller_alone(
    run: Run, issuer: Issuer, tmp_path: Path, pauses: list[float]
) -> None:
    waits = [{"error": "authorization_pending"}, {"error": "slow_down"}, {"error": "authorization_pending"}]
    issuer.answers["/token"] = [*waits, _granted(issuer)]
    done = run("login")
    assert done.exit_code == 0, done.output
    assert done.stderr == (
        "open https://id.example/device?code=ABCD-EFGH in a browser and confirm the code ABCD-EFGH\n"
    )
    assert done.stdout == "signed in as idp:kim, role admin\n"
    assert pauses == [5, 5, 10, 10]
    assert issuer.forms[0] == {"client_id": "cli", "scope": "openid"}
    assert {form["device_code"] for form in issuer.forms[1:]} == {"long and secret"}
    (file,) = _files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    # Later commands send it, and a token that is named goes before it.
    assert run("token", "list").exit_code == 0
    assert run("token", "list", TIDEMARK_TOKEN="x").exit_code == 1
    assert run("logout").output == "signed out\n"
    assert _files(tmp_path) == []
    assert issuer.forms[-1] == {"client_id": "cli", "token": "first"}
    refused = run("token", "list")
    assert "no token was sent" in refused.stderr
    assert "tidemark login" in refused.stderr
    assert run("logout").stdout == "nobody was signed in\n"


def test_a_token_that_has_expired_is_renewed_by_the_newest_that_renews(run: Run, issuer: Issuer) -> None:
    issuer.answers["/token"] = [
        _granted(issuer, 0),
        _granted(issuer, 0, refresh_token="second"),
        _granted(issuer, refresh_token="third"),
    ]
    assert run("login").exit_code == 0
    renewals = [form["refresh_token"] for form in issuer.forms if "refresh_token" in form]
    assert renewals == ["first"]
    for _ in range(3):
        assert run("token", "list").exit_code == 0
    renewals = [form["refresh_token"] for form in issuer.forms if "refresh_token" in form]
    assert renewals == ["first", "second"]


def test_where_it_is_renewed_no_longer_one_line_says_so_and_signing_in_again_helps(
    run: Run, issuer: Issuer, tmp_path: Path
) -> None:
    issuer.answers["/token"] = [_granted(issuer), {"error": "invalid_grant"}]
    assert run("login").exit_code == 0
    (file,) = _files(tmp_path)
    file.write_text(file.read_text().replace('"expires_us": ', '"expires_us": -'))
    ended = run("token", "list")
    assert ended.exit_code == 1
    assert ended.stderr.startswith("tidemark: you are signed in no longer; run: tidemark login --url http")
    issuer.answers["/token"] = [_granted(issuer)]
    assert run("login").exit_code == 0


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (None, "it cannot be asked to"),
        ("http://127.0.0.1:9/", "it cannot be reached"),
        ("/gone", "it answers 404"),
    ],
)
def test_where_the_issuer_does_not_end_a_sign_in_it_is_forgotten_all_the_same(
    run: Run, issuer: Issuer, tmp_path: Path, address: str | None, why: str
) -> None:
    full = issuer.url + address if address == "/gone" else address
    issuer.answers["/token"], issuer.document = [_granted(issuer)], {"revocation_endpoint": full}
    assert run("login").exit_code == 0
    done = run("logout")
    assert (done.exit_code, done.stdout, _files(tmp_path)) == (0, "signed out\n", [])
    assert f"the issuer has not ended the sign-in, which ends there by itself: {why}" in done.stderr


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([{"error": "access_denied"}], "lets nobody in: access_denied"),
        ([{"error": "expired_token", "error_description": "too\x1b late"}], "lets nobody in: too"),
        ([{"error": "authorization_pending"}], "nobody confirmed the code in time"),
    ],
)
def test_who_is_not_let_in_learns_why(
    run: Run, issuer: Issuer, tmp_path: Path, answers: list[dict[str, object]], why: str
) -> None:
    issuer.answers["/token"] = answers
    done = run("login")
    assert (done.exit_code, _files(tmp_path)) == (1, [])
    assert why in done.stderr
    assert "\x1b" not in done.stderr


def test_a_client_that_may_not_use_the_device_flow_is_named(run: Run, issuer: Issuer) -> None:
    issuer.answers["/device"] = [{"error": "unauthorized_client"}]
    assert "lets nobody in: unauthorized_client" in run("login").stderr
    issuer.document = {"device_authorization_endpoint": None}
    assert "offers no device flow (RFC 8628); is it enabled for 'cli'?" in run("login").stderr
    issuer.document = {"device_authorization_endpoint": "http://id.example/device"}
    assert "http://id.example/device is not https" in run("login").stderr


def test_of_several_issuers_one_is_named(tmp_path: Path, issuer: Issuer, pauses: list[float]) -> None:
    roles = {"audience": "tidemark", "group_roles": "sre=admin"}
    with running_issuer(1) as other:
        tables = {
            "one": {"issuer": issuer.url, "client_id": "a", **roles},
            "two": {"issuer": other.url, "client_id": "b", **roles},
        }
        issuer.answers["/token"] = [_granted(issuer)]
        file = write_issuers(tmp_path, **tables)
        with (
            Controller(f"sqlite:///{tmp_path / 't.db'}", issuers_file=file) as controller,
            served(controller.app) as url,
        ):
            env = {"XDG_STATE_HOME": str(tmp_path / "home"), "TIDEMARK_URL": url}
            assert "--issuer: name one of one, two" in CliRunner().invoke(app, ["login"], env=env).stderr
            done = CliRunner().invoke(app, ["login", "--issuer", "one"], env=env)
            assert done.stdout == "signed in as one:kim, role admin\n"


def test_without_an_issuer_the_way_out_is_said(controller: Controller) -> None:
    make_token(controller)
    with served(controller.app) as url:
        done = CliRunner().invoke(app, ["login", "--url", url])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "names no issuer to sign in at" in done.stderr
