"""The page in a real browser, against a running controller with a live Spark job: what an SRE does on a working day."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, expect

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import AdaptiveQuery, flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.restart.runner import Parts

from support.browser import Watched, running_browser, watched_page
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.spark_streams import Job, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

JOB, STREAM = "tidemark-tests", "page"
VIEW = f"/#/streams/{JOB}/{STREAM}?span=1h"
INTERVAL_S = 1.0


@contextmanager
def _live_job(spark: SparkSession, folder: Path, controller: ControllerProcess) -> Iterator[None]:
    """Run a job whose rows come now, up to 4 s late, and those of partition 3 by 5 s more."""
    job = Job(spark, folder, tumbling("2 seconds"), "update", stream=STREAM, controller_url=controller.url)
    ended = threading.Event()
    rng = random.Random(9)

    def feed() -> None:
        while not ended.wait(INTERVAL_S):
            now_us = time.time_ns() // 1_000
            job.write(
                [
                    Row(
                        job.written * 1_000 + n,
                        n % 4,
                        now_us - round((rng.random() * 4 + (5 if n % 4 == 3 else 0)) * 1e6),
                    )
                    for n in range(60)
                ]
                for _ in range(1)
            )

    runner = AdaptiveQuery(lambda: job.start("0 seconds"), cooldown_s=0.0, parts=Parts(poll_s=0.1))
    threads = [threading.Thread(target=work, daemon=True) for work in (feed, runner.run)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(job.output) >= 3, "three batches")
        yield
    finally:
        ended.set()
        runner.stop()
        for thread in threads:
            thread.join(PATIENCE_S)
        flush(PATIENCE_S)


def _confirm(watched: Watched, button: str, verb: str, reason: str) -> None:
    """Do what a button asks for; again where a newer rollout has taken the place of the one that was shown."""
    page = watched.page
    dialog = page.get_by_role("dialog")
    problem = dialog.get_by_role("alert")
    page.get_by_role("button", name=button).click()
    dialog.get_by_label("Why").fill(reason)
    dialog.get_by_role("button", name=verb, exact=True).click()
    page.wait_for_function(
        "() => !document.querySelector('dialog[open]') || document.querySelector('dialog[open] .problem')"
    )
    if dialog.count():
        expect(problem).to_contain_text("is superseded")
        watched.messages.clear()
        watched.failed.clear()
        dialog.get_by_role("button", name="Cancel").click()
        _confirm(watched, button, verb, reason)


def _set_slo(page: Page, target: str) -> None:
    page.get_by_role("button", name="Set an SLO …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Target (%)").fill(target)
    dialog.get_by_label("Why").fill("agreed with the analysts")
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog).to_contain_text("Consequences")
    dialog.get_by_role("button", name="Set the SLO", exact=True).click()
    expect(dialog).to_have_count(0)


def _drag(page: Page) -> None:
    """Drag the bound to the right, and see that the preview is of the new bound."""
    slider = page.get_by_role("slider")
    expect(page.locator(".preview .figure").first).to_be_visible()
    before = int(slider.get_attribute("aria-valuenow") or "0")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.down()
    for step in range(1, 7):
        page.mouse.move(box["x"] + box["width"] / 2 + 20 * step, box["y"] + 60)
    page.mouse.up()
    assert int(slider.get_attribute("aria-valuenow") or "0") > before
    expect(page.locator(".preview.pending")).to_have_count(0)
    expect(page.locator(".preview-words")).not_to_be_empty()


def _events(controller: ControllerProcess, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [one for one in controller.get("events")["events"] if one["kind"] == kind]
    return found


def test_an_sre_sets_the_slo_reads_the_curve_approves_and_rolls_back_on_a_live_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "controller").mkdir()
    controller = ControllerProcess(tmp_path / "controller", JOB, STREAM)
    controller.wait_until_ready()
    spark.conf.set("spark.tidemark.watch.seconds", "2")
    try:
        with (
            _live_job(spark, tmp_path / "job", controller),
            running_browser() as browser,
            watched_page(browser, controller.url) as watched,
        ):
            page = watched.page
            watched.open()
            # A stream that loses rows stands among the savings too.
            fleet = page.get_by_role("table", name="Streams: silent ones, critical ones")
            fleet.get_by_role("link", name=f"{JOB} / {STREAM}").click()
            _set_slo(page, "95")
            assert controller.get("slo")["target_ppm"] == 950_000
            controller.put("policy", at_once("Restart", approval="all"))
            _confirm(watched, "Approve …", "Approve", "looked at the curve")
            until(
                lambda: controller.get()["applied"]["source"] == "controller",
                "an acknowledgement",
                seen=controller.get,
            )
            # With more rows another bound is recommended, whose rollout would stand before this one.
            controller.put("policy", at_once("Restart", approval="all", paused=True))
            badge = page.locator(".rollout .badge").first
            expect(badge).to_have_text(re.compile("effective|verified"))
            applied = controller.get()["applied"]
            assert applied["source"] == "controller"
            assert applied["bound_ms"] > 0
            _drag(page)
            _confirm(watched, "Roll back …", "Roll back", "the other team asked for it")
            expect(page.get_by_text("Rolled back.", exact=True)).to_be_visible()
            until(lambda: _events(controller, "RolloutRolledBack"), "a rollback")
            expect(page.locator(".events")).to_contain_text("the other team asked for it")
            watched.assert_no_errors()

            with watched_page(browser, controller.url, theme="dark", bypass_csp=True) as seen:
                seen.open(VIEW)
                expect(seen.page.locator(".panel.loading")).to_have_count(0)
                seen.picture(tmp_path / "live-stream-dark.png")
                assert seen.serious_faults() == []
                seen.assert_no_errors()
    finally:
        spark.conf.unset("spark.tidemark.watch.seconds")
        controller.stop()
