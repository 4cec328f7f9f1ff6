"""A target is tried on the page beside the SLO in force, looked at, and promoted after a dry run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from support.browser import watched_page
from support.controller_app import Controller
from support.served import served
from support.waiting_job import waiting_job

pytestmark = pytest.mark.slow


def test_a_target_is_tried_beside_the_slo_and_promoted_after_a_dry_run(
    browser: Browser, controller: Controller
) -> None:
    job = waiting_job(controller)
    with served(controller.app) as url, watched_page(browser, url, bypass_csp=True) as watched:
        page = watched.page
        watched.open("/#/streams/job/stream?span=1h")
        panel = page.get_by_role("region", name="Shadow beside the SLO")
        expect(panel).to_be_hidden()
        page.get_by_role("button", name="Change the SLO …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Target (%)").fill("90")
        dialog.get_by_label("Why").fill("what would 90 % save?")
        dialog.get_by_role("button", name="Try it beside the one in force").click()
        expect(dialog).to_have_count(0)
        expect(panel).to_contain_text("what would 90 % save?")
        assert job.status()["slo"]["target_ppm"] == 990_000, "the SLO stays"

        job.run(20, 3.0, tick=False)
        controller.tick()
        found = controller.http.get(f"{job.path}/shadow").json()
        assert found["shadow"]["bound_ms"] < found["in_use"]["bound_ms"]
        page.keyboard.press("r")
        expect(panel.get_by_role("row", name=re.compile("^Target"))).to_have_text(
            re.compile(r"99\s%\s*90\s%")
        )
        expect(panel.get_by_role("row", name=re.compile("^Late rows"))).to_contain_text(" of 1,200")
        expect(panel.get_by_role("row", name=re.compile("^Mean latency"))).to_have_text(
            re.compile(r"\d s.*\d s")
        )
        assert watched.serious_faults() == []

        panel.get_by_role("button", name="Promote the shadow …").click()
        expect(dialog.get_by_role("row", name=re.compile("^Target"))).to_have_text(
            re.compile(r"99\s%\s*90\s%")
        )
        dialog.get_by_label("Why").fill("it is enough")
        dialog.get_by_role("button", name="Show the consequences").click()
        expect(dialog.locator(".before-after-table")).to_contain_text("Mean latency")
        assert job.status()["slo"]["target_ppm"] == 990_000, "a dry run sets nothing"
        assert watched.serious_faults() == []
        # From then on a poll under way may find no shadow any more.
        watched.assert_no_errors()
        dialog.get_by_role("button", name="Promote", exact=True).click()
        expect(dialog).to_have_count(0)
        expect(panel).to_be_hidden()
        assert job.status()["slo"]["target_ppm"] == 900_000
        assert job.events("ShadowPromoted")[0]["reason"] == "it is enough"
