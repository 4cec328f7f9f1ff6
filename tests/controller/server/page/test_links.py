"""Where the page of a stream leads to outside of Tidemark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tidemark.models.protocol.messages import Acknowledgement

from support.browser import watched_page
from support.controller_app import Controller
from support.served import served

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("hosts", ["*.example.com, other", "example.com", ""])
def test_a_stream_leads_to_its_run_in_spark_s_ui_where_the_operator_allows_the_host(
    browser: Browser, database_url: str, hosts: str
) -> None:
    address = "https://spark.example.com/proxy/app-1/StreamingQuery/statistics?id=%22%3E%3Cb%3E&x='"
    with Controller(database_url, link_hosts=hosts) as controller:
        _shows_the_address(browser, controller, address, is_link=hosts.startswith("*"))


def _shows_the_address(browser: Browser, controller: Controller, address: str, *, is_link: bool) -> None:
    acknowledged = Acknowledgement(
        query_id="query",
        run_id="run",
        bound_ms=7_000,
        generation=None,
        source="job",
        mode="Off",
        applied_us=controller.clock(),
        spark_ui=address,
    )
    assert controller.acknowledge(acknowledged).status_code == 201
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open("#/streams/job/stream")
        link = watched.page.get_by_role("link", name="Spark UI")
        if is_link:
            expect(link).to_have_attribute("href", address)
            expect(link).to_have_attribute("rel", "noopener noreferrer")
        else:
            expect(watched.page.get_by_text(f"Spark UI: {address}")).to_be_visible()
            expect(link).to_have_count(0)
