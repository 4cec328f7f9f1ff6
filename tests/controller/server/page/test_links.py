"""Where the page of a stream leads to outside of Tidemark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tidemark.models.protocol.messages import Acknowledgement

from support.browser import watched_page
from support.controller_app import Controller
from support.served import served

pytestmark = pytest.mark.slow


def test_the_name_of_a_stream_leads_to_the_page_of_its_run_in_spark_s_ui(
    browser: Browser, controller: Controller
) -> None:
    address = "https://spark.example.com/proxy/app-1/StreamingQuery/statistics?id=%22%3E%3Cb%3E&x='"
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
        expect(link).to_have_attribute("href", address)
        expect(link).to_have_attribute("rel", "noopener noreferrer")
