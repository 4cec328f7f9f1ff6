"""Access in the browser: open on loopback, by a token that stays in the tab, by signing in, and behind a proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from support.browser import watched_page
from support.controller_app import Controller
from support.issuer import AUDIENCE, Issuer, running_issuer, write_issuers
from support.served import served
from support.tokens import bearer, make_token

pytestmark = pytest.mark.slow


def _two_jobs(controller: Controller) -> None:
    for job in ("shop", "bank"):
        controller.http.put(f"/v1/jobs/{job}/streams/clicks/slo", json={"target_ppm": 990_000})


def test_without_tokens_none_is_asked_for(browser: Browser, controller: Controller) -> None:
    _two_jobs(controller)
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        expect(watched.page.locator("table.fleet tbody tr")).to_have_count(2)
        expect(watched.page.get_by_role("button", name="Forget the token")).to_be_hidden()
        watched.assert_no_errors()


def test_a_token_stays_in_the_tab_and_out_of_all_addresses(browser: Browser, controller: Controller) -> None:
    _two_jobs(controller)
    token = make_token(controller, "viewer")
    with served(controller.app) as url, watched_page(browser, url) as watched:
        page = watched.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        watched.open()
        expect(page.get_by_role("heading", name="This controller needs a token")).to_be_visible()
        assert page.get_by_label("Token").get_attribute("type") == "password"
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.locator("table.fleet tbody tr")).to_have_count(2)
        page.reload()
        expect(page.locator("table.fleet tbody tr")).to_have_count(2)
        assert page.evaluate("localStorage.length") == 0
        assert token in str(page.evaluate("Object.values(sessionStorage)"))
        assert page.context.cookies() == []
        assert not [address for address in [*asked, page.url] if token in address]
        page.get_by_role("button", name="Forget the token").click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


def test_a_bad_token_gets_a_message(browser: Browser, controller: Controller) -> None:
    token = make_token(controller, "viewer")
    with served(controller.app) as url, watched_page(browser, url) as watched:
        page = watched.page
        watched.open()
        page.get_by_label("Token").fill(token[:-3])
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("cut off or mistyped")
        page.get_by_label("Token").fill("tidemark")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("not a Tidemark token")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_text("No stream is known yet")).to_be_visible()


def test_a_token_for_some_jobs_sees_those(browser: Browser, controller: Controller) -> None:
    _two_jobs(controller)
    token = make_token(controller, "viewer", "shop*")
    with served(controller.app) as url, watched_page(browser, url) as watched:
        page = watched.page
        watched.open()
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.locator("a.stream-link")).to_have_text(["shop / clicks"])
        watched.open("/#/streams/bank/clicks")
        expect(page.locator(".notice")).to_contain_text("out of reach")


def test_a_job_token_gets_the_message_that_it_cannot_read(browser: Browser, controller: Controller) -> None:
    token = make_token(controller, "job")
    with served(controller.app) as url, watched_page(browser, url) as watched:
        page = watched.page
        watched.open()
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.locator(".notice")).to_contain_text("viewer, operator or admin")
        page.get_by_role("button", name="Use another token").click()
        expect(page.get_by_label("Token")).to_be_visible()


def test_behind_a_proxy_that_authenticates_no_token_is_asked_for(browser: Browser, database_url: str) -> None:
    settings: dict[str, Any] = {
        "proxy_user_header": "X-Forwarded-User",
        "proxy_addresses": "127.0.0.1",
        "proxy_roles": "*=viewer",
    }
    with Controller(database_url, **settings) as controller, served(controller.app) as url:
        # The header that the proxy adds to each request of a user.
        named = {"X-Forwarded-User": "ada"}
        with watched_page(browser, url, extra_http_headers=named) as watched:
            watched.open()
            expect(watched.page.get_by_text("No stream is known yet")).to_be_visible()
            watched.assert_no_errors()


# -- by single sign-on -----------------------------------------------------------------------------------------------


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        running.groups = ["sre"]
        yield running


@pytest.fixture
def trusting(issuer: Issuer, tmp_path: Path, database_url: str) -> Iterator[str]:
    """Return the address of a controller that trusts the issuer, with two streams."""
    table = {"issuer": issuer.url, "audience": AUDIENCE, "group_roles": "sre=operator", "client_id": "page"}
    with Controller(database_url, issuers_file=write_issuers(tmp_path, idp=table)) as controller:
        controller.http.headers.update(bearer(make_token(controller)))
        _two_jobs(controller)
        with served(controller.app) as url:
            yield url


def test_a_person_signs_in_comes_back_to_the_view_and_signs_out(
    browser: Browser, trusting: str, issuer: Issuer
) -> None:
    with watched_page(browser, trusting) as watched:
        page = watched.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        watched.open("/#/streams/bank/clicks")
        watched.failed.clear()
        watched.messages.clear()
        page.get_by_role("button", name="Sign in at idp").click()
        expect(page.locator(".stream-grid")).to_be_visible()
        assert page.url == f"{trusting}/#/streams/bank/clicks"
        expect(page.locator(".who")).to_have_text("idp:kim operator")
        page.reload()
        expect(page.locator(".who")).to_have_text("idp:kim operator")
        # Neither a token nor what renews it is in an address, and nothing outlasts the tab.
        (stored,) = page.evaluate("Object.values(sessionStorage)")
        kept = json.loads(stored)
        assert not [url for url in [*asked, page.url] if kept["access"] in url or "renews-it" in url]
        assert page.evaluate("localStorage.length") == 0
        assert {urlsplit(url).netloc for url in watched.foreign} == {urlsplit(issuer.url).netloc}
        assert (watched.failed, watched.messages) == ([], [])
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("You are signed out.")).to_be_visible()
        expect(page.get_by_role("link", name="Sign out there")).to_have_attribute("href", f"{issuer.url}/end")
        assert issuer.forms[-1] == {"client_id": "page", "token": "renews-it"}
        assert page.evaluate("sessionStorage.length") == 0
        assert watched.serious_faults() == []


def test_a_sign_in_is_renewed_and_its_end_is_said(browser: Browser, trusting: str, issuer: Issuer) -> None:
    with watched_page(browser, trusting) as watched:
        page = watched.page
        watched.open()
        page.get_by_role("button", name="Sign in at idp").click()
        expect(page.locator("table.fleet tbody tr")).to_have_count(2)
        renewed = {"access_token": issuer.token("lee", groups=["sre"]), "token_type": "Bearer"}
        issuer.answers["/token"] = [{**renewed, "expires_in": 0, "refresh_token": "second"}]
        age = "sessionStorage.setItem(k, sessionStorage.getItem(k).replace(/endsMs.:\\d+/, 'endsMs\":0'))"
        page.evaluate(f"for (const k of Object.keys(sessionStorage)) {age}")
        page.reload()
        expect(page.locator(".who")).to_have_text("idp:lee operator")
        renewals = [form["refresh_token"] for form in issuer.forms if "refresh_token" in form]
        assert (renewals[0], set(renewals[1:])) == ("renews-it", {"second"})
        # While the issuer is away the figures stay; when it refuses, the person is asked to sign in again.
        issuer.away = True
        page.keyboard.press("r")
        expect(page.get_by_role("alert")).to_contain_text("The issuer idp has not answered")
        issuer.away = False
        issuer.answers["/token"] = [{"error": "invalid_grant", "error_description": "session not active"}]
        page.keyboard.press("r")
        expect(page.get_by_role("alert")).to_have_text(
            "The issuer idp lets nobody in: your sign-in has ended there (session not active)"
        )
        expect(page.get_by_role("button", name="Sign in at idp")).to_be_focused()


def test_why_nobody_was_signed_in_is_said(browser: Browser, trusting: str, issuer: Issuer) -> None:
    issuer.refusal = {"error": "access_denied"}
    with watched_page(browser, trusting) as watched:
        page = watched.page
        watched.open("/#/streams/bank/clicks")
        page.get_by_role("button", name="Sign in at idp").click()
        expect(page.get_by_role("alert")).to_contain_text("it was cancelled there")
        assert page.url == f"{trusting}/#/streams/bank/clicks"
        page.goto(f"{trusting}/?code=stolen&state=x")
        expect(page.get_by_role("alert")).to_have_text("No sign-in was begun in this tab.")
        assert page.url == f"{trusting}/"
        page.get_by_text("With a token").click()
        expect(page.get_by_label("Token")).to_be_visible()
