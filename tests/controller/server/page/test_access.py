"""Access in the browser: open on loopback, by a token that stays in the tab, and behind a proxy."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from support.browser import watched_page
from support.controller_app import Controller
from support.served import served
from support.tokens import make_token

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
        assert token in page.evaluate("Object.values(sessionStorage)")
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
