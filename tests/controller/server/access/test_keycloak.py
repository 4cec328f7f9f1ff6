"""Single sign-on with a real Keycloak: on the page and by the device flow, roles by groups, keys rotated, and away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from playwright.sync_api import expect

from tidemark.controller.server.access.issuer_keys import PAUSE_SECONDS, READ_AGAIN_SECONDS
from tidemark.controller.tools.cli import app
from tidemark.controller.tools.client import sign_in as signing_in

from support.browser import running_browser, watched_page
from support.controller_app import Controller
from support.issuer import write_issuers
from support.keycloak import CLIENT, PASSWORD, USER, Keycloak, running_keycloak
from support.served import served
from support.tokens import bearer, make_token

pytestmark = [pytest.mark.soak, pytest.mark.slow]


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with running_keycloak(tmp_path_factory.mktemp("keycloak")) as running:
        yield running


def _table(keycloak: Keycloak) -> dict[str, str]:
    return {
        "issuer": keycloak.issuer,
        "audience": "tidemark",
        "client_id": CLIENT,
        "user_claim": "preferred_username",
        "group_roles": "sre=operator, *=viewer:public-*",
    }


def test_a_person_signs_in_on_the_page_is_renewed_and_signs_out(keycloak: Keycloak, tmp_path: Path) -> None:
    file = write_issuers(tmp_path, keycloak=_table(keycloak))
    with (
        Controller(f"sqlite:///{tmp_path / 't.db'}", issuers_file=file) as controller,
        served(controller.app) as url,
        running_browser() as browser,
        watched_page(browser, url) as watched,
    ):
        root = bearer(make_token(controller))
        slo = {"target_ppm": 990_000}
        controller.http.put("/v1/jobs/shop/streams/clicks/slo", json=slo, headers=root)
        keycloak.allow_page(url)
        page = watched.page

        def kept() -> dict[str, Any]:
            (stored,) = page.evaluate("Object.values(sessionStorage)")
            found: dict[str, Any] = json.loads(stored)
            return found

        def sign_in() -> None:
            page.get_by_role("button", name="Sign in at keycloak").click()
            page.locator("#username").fill(USER)
            page.locator("#password").fill(PASSWORD)
            page.locator("#kc-login").click()
            expect(page.locator(".who")).to_have_text("keycloak:kim operator")

        watched.open("/#/streams/shop/clicks")
        sign_in()
        assert page.url == f"{url}/#/streams/shop/clicks"
        first = kept()
        page.evaluate(
            "for (const [name, text] of Object.entries(sessionStorage))"
            " sessionStorage.setItem(name, text.replace(/endsMs.:\\d+/, 'endsMs\":0'))"
        )
        page.reload()
        expect(page.locator(".who")).to_have_text("keycloak:kim operator")
        renewed = kept()
        assert renewed["access"] != first["access"]
        print(f"renewed in {keycloak.issuer}, kept in the tab: {sorted(renewed)}")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("You are signed out.")).to_be_visible()
        form = {
            "grant_type": "refresh_token",
            "client_id": CLIENT,
            "refresh_token": renewed["refresh"],
        }
        ended = keycloak.http.post(f"{keycloak.issuer}/protocol/openid-connect/token", data=form)
        print(ended.json())
        assert (ended.status_code, ended.json()["error"]) == (400, "invalid_grant")
        page.get_by_role("link", name="Sign out there").click()
        page.locator("#kc-logout").click()
        expect(page.locator("#kc-page-title")).to_contain_text("You are logged out")
        # Who signs in next is asked for the password.
        watched.open()
        sign_in()


def test_a_person_signs_in_acts_loses_the_group_and_keys_rotate_while_keycloak_comes_and_goes(
    keycloak: Keycloak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_issuers(tmp_path, keycloak=_table(keycloak))
    steady = SimpleNamespace(now_s=1_000.0)
    shown: list[str] = []

    def confirm(_: float) -> None:
        if shown:
            keycloak.confirm(shown.pop())

    show = "tidemark.controller.tools.cli.login._show"
    monkeypatch.setattr(show, lambda code: shown.append(code.address))
    monkeypatch.setattr(signing_in, "time", SimpleNamespace(sleep=confirm))
    home = tmp_path / "home"
    store = f"sqlite:///{tmp_path / 't.db'}"
    with (
        Controller(store, steady=lambda: steady.now_s, issuers_file=file) as controller,
        served(controller.app) as url,
    ):

        def run(*arguments: str) -> Result:
            return CliRunner().invoke(
                app,
                list(arguments),
                env={"XDG_STATE_HOME": str(home), "TIDEMARK_TOKEN": "", "TIDEMARK_URL": url},
            )

        def renewed() -> Result:
            """Run a command once what is kept has expired, so that it is renewed."""
            (kept,) = home.rglob("*.json")
            kept.write_text(re.sub(r'"expires_us": \d+', '"expires_us": 0', kept.read_text()))
            return run("policy", "set", "shop", "clicks", "--mode", "Off", "--create")

        def token() -> str:
            (kept,) = home.rglob("*.json")
            return str(json.loads(kept.read_text())["access_token"])

        signed_in = run("login")
        assert signed_in.exit_code == 0, signed_in.output
        print(signed_in.stdout)
        assert re.fullmatch(
            r"signed in as keycloak:kim \(sub [0-9a-f-]{36}\), role operator\n", signed_in.stdout
        )
        first = run("policy", "set", "shop", "clicks", "--mode", "Off", "--create")
        assert first.exit_code == 0, first.output
        by = re.search(r"keycloak:kim \(sub [0-9a-f-]{36}\)", run("events", "shop", "clicks").stdout)
        assert by is not None
        # Renewed while in the group; a key that is new is read at once, and the old one is refused.
        assert renewed().exit_code == 0
        old = token()
        keycloak.rotate()
        steady.now_s += PAUSE_SECONDS
        assert renewed().exit_code == 0
        assert token() != old
        refused = controller.http.get("/v1/caller", headers=bearer(old))
        assert (refused.status_code, "no key of the id" in refused.text) == (401, True)
        # A token for another service.
        form = {"grant_type": "password", "client_id": "admin-cli", "username": USER, "password": PASSWORD}
        other = keycloak.http.post(f"{keycloak.issuer}/protocol/openid-connect/token", data=form).json()
        refused = controller.http.get("/v1/caller", headers=bearer(other["access_token"]))
        assert (refused.status_code, "no claim 'aud'" in refused.text) == (401, True)
        # Out of the group: the next token has no role over this job.
        keycloak.leave_group("sre")
        forbidden = renewed()
        print(forbidden.stderr)
        assert (forbidden.exit_code, "403" in forbidden.stderr) == (1, True)
        # Keycloak away: what was read is used, and a controller that has read nothing says so.
        valid = token()
        keycloak.stop()
        steady.now_s += READ_AGAIN_SECONDS
        assert controller.http.get("/v1/caller", headers=bearer(valid)).status_code == 200
    with Controller(store, issuers_file=file) as fresh:
        answer = fresh.http.get("/v1/caller", headers=bearer(valid))
        print(answer.json()["detail"])
        assert answer.status_code == 503
