"""Steering on the page: mode, limits, approval, pin and a bound of the curve, each after a look at what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tidemark.models.specs.slo import Day

from support.browser import NARROW, Watched, watched_page
from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.served import served
from support.tokens import make_token
from support.waiting_job import waiting_job

pytestmark = pytest.mark.slow

STREAM = "/#/streams/job/stream?span=1h"


@pytest.fixture
def job(controller: Controller) -> RolledJob:
    return waiting_job(controller)


@pytest.fixture
def watched(browser: Browser, job: RolledJob) -> Iterator[Watched]:
    """Return the job's view."""
    with served(job.controller.app) as url, watched_page(browser, url, bypass_csp=True) as page:
        page.open(STREAM)
        yield page


def opened(page: Page, button: str) -> Locator:
    page.get_by_role("button", name=button).first.click()
    return page.get_by_role("dialog")


def show_and_set(dialog: Locator, reason: str) -> None:
    dialog.get_by_label("Why").fill(reason)
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog).to_contain_text("Consequences")
    dialog.get_by_role("button", name="Set it").click()
    expect(dialog).to_have_count(0)


def policy(job: RolledJob) -> dict[str, object]:
    found: dict[str, object] = job.controller.http.get(f"{job.path}/policy").json()
    return found


def test_the_mode_is_changed_after_a_dry_run_and_with_a_reason(watched: Watched, job: RolledJob) -> None:
    dialog = opened(watched.page, "Change the mode …")
    dialog.get_by_label("Mode").select_option("Off")
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog).to_contain_text("The job keeps its own bound")
    assert policy(job)["mode"] == "OnRestart", "a dry run sets nothing"
    show_and_set(opened_again(dialog), "only to watch")
    expect(watched.page.locator(".stream-facts")).to_contain_text("mode Off")
    assert policy(job)["mode"] == "Off"
    assert job.events("PolicySet")[0]["reason"] == "only to watch"
    watched.assert_no_errors()


def opened_again(dialog: Locator) -> Locator:
    dialog.get_by_role("button", name="Back").click()
    return dialog


def test_the_limits_are_changed_and_must_fit_together(watched: Watched, job: RolledJob) -> None:
    dialog = opened(watched.page, "Change the limits …")
    dialog.get_by_label("Minimum bound").fill("40 s")
    dialog.get_by_label("Maximum bound").fill("20 s")
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog.locator(".field", has=watched.page.get_by_label("Maximum bound"))).to_contain_text(
        "must not be below"
    )
    dialog.get_by_label("Maximum bound").fill("")
    show_and_set(dialog, "never below 40 s")
    expect(watched.page.get_by_role("region", name="Steering", exact=True)).to_contain_text("at least 40 s")
    assert (policy(job)["min_bound_ms"], policy(job)["max_bound_ms"]) == (40_000, None)
    assert watched.faults_in_both_themes() == []
    watched.assert_no_errors()


def test_two_who_change_the_policy_at_once_see_each_other_and_the_rest_of_theirs_stays(
    watched: Watched, job: RolledJob
) -> None:
    dialog = opened(watched.page, "Change the limits …")
    dialog.get_by_label("Minimum bound").fill("40 s")
    dialog.get_by_label("Why").fill("mine")
    job.put("policy", at_once(min_bound_ms=20_000, cooldown_ms=7_000))
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog).to_contain_text("Somebody else has set the policy meanwhile")
    expect(dialog.get_by_role("row", name=re.compile("^Minimum bound"))).to_have_text(
        re.compile(r"Minimum bound\s*0 s\s*20 s\s*40 s")
    )
    dialog.get_by_role("button", name="Keep mine").click()
    expect(dialog).to_contain_text("Consequences")
    dialog.get_by_role("button", name="Set it").click()
    expect(dialog).to_have_count(0)
    assert (policy(job)["min_bound_ms"], policy(job)["cooldown_ms"]) == (40_000, 7_000)


def test_which_rollouts_wait_is_changed(watched: Watched, job: RolledJob) -> None:
    dialog = opened(watched.page, "Change the approval …")
    dialog.get_by_label("Which rollouts wait").select_option("none")
    show_and_set(dialog, "we trust it")
    assert policy(job)["approval"] == "none"
    watched.assert_no_errors()


def test_the_gates_are_chosen_from_those_that_are_set_up(
    browser: Browser, database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "gates.toml"
    file.write_text(
        '[calendar]\nwebhook = "http://127.0.0.1:9/"\n'
        '[errors]\nprometheus = "http://127.0.0.1:9/"\nquery = "sum(errors)"\nmax = 3\n'
    )
    with Controller(database_url, gates_file=file) as controller, served(controller.app) as url:
        job = waiting_job(controller)
        job.put("policy", at_once(gates=["calendar"]))
        with watched_page(browser, url, bypass_csp=True) as watched:
            watched.open(STREAM)
            dialog = opened(watched.page, "Change the outside gates …")
            expect(dialog.get_by_role("checkbox", name="calendar")).to_be_checked()
            expect(dialog).to_contain_text("whether sum(errors) is at most 3")
            dialog.get_by_role("checkbox", name="errors").check()
            dialog.get_by_role("button", name="Show the consequences").click()
            expect(dialog).to_contain_text("Not yet: held: the outside gate calendar has yet to answer")
            assert policy(job)["gates"] == ["calendar"], "a dry run sets nothing"
            assert watched.serious_faults() == []
            dialog = opened_again(dialog)
            dialog.get_by_role("checkbox", name="calendar").uncheck()
            show_and_set(dialog, "errors say enough")
            steering = watched.page.get_by_role("region", name="Steering", exact=True)
            expect(steering.get_by_text("errors", exact=True)).to_be_visible()
            assert policy(job)["gates"] == ["errors"]
            watched.assert_no_errors()


def test_a_bound_of_the_curve_is_applied_after_its_figures_were_shown_beside_todays(
    watched: Watched, job: RolledJob
) -> None:
    page = watched.page
    field = page.get_by_label("If the bound were")
    field.fill("30 s")
    field.press("Enter")
    dialog = opened(page, "Apply 30 s …")
    expect(dialog.get_by_label("Minimum bound")).to_have_value("30 s")
    expect(dialog.get_by_label("Maximum bound")).to_have_value("30 s")
    dialog.get_by_role("button", name="Show the consequences").click()
    after = job.controller.http.get(f"{job.path}/preview", params={"bound_ms": 30_000}).json()
    expect(dialog.get_by_role("row", name=re.compile("^Bound"))).to_have_text(re.compile(r"60 s\s*30 s"))
    expect(dialog.get_by_role("row", name=re.compile("^Windows that close"))).to_contain_text(
        str(after["windows_closing"])
    )
    assert watched.faults_in_both_themes() == []
    show_and_set(opened_again(dialog), "held for the release")
    assert (policy(job)["min_bound_ms"], policy(job)["max_bound_ms"]) == (30_000, 30_000)
    job.controller.tick()
    assert job.rollout()["to_bound_ms"] == 30_000
    watched.assert_no_errors()


def test_a_rollout_is_reviewed_with_the_figures_before_and_after_it(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    to_ms = job.rollout()["to_bound_ms"]
    after = job.controller.http.get(f"{job.path}/preview", params={"bound_ms": to_ms}).json()
    dialog = opened(page, "Review …")
    table = dialog.get_by_role("table")
    for name in (
        "Bound",
        "Rows admitted",
        "Late rows a day",
        "Mean latency",
        "State",
        "Windows that close at once",
    ):
        expect(table.get_by_role("row", name=re.compile(f"^{name}"))).to_have_count(1)
    expect(table.get_by_role("row", name=re.compile("^Windows that close"))).to_contain_text(
        str(after["windows_closing"])
    )
    assert watched.faults_in_both_themes() == []
    page.set_viewport_size({"width": NARROW, "height": 900})
    assert dialog.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    dialog.get_by_label("Why").fill("looked at both")
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog).to_have_count(0)
    job.controller.tick()
    page.keyboard.press("r")
    expect(page.locator(".verdict-sentence")).to_contain_text(
        "is under way: the job takes it when it next starts."
    )
    expect(page.locator(".rollout .kind-info")).to_have_text("waits for the next start of the job")
    expect(page.locator(".condition.kind-warning")).to_have_count(0)
    watched.assert_no_errors()


def test_a_stream_is_pinned_and_the_pin_is_taken_away(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    dialog = opened(page, "Pin …")
    for name in ("Bound", "Rows admitted", "Mean latency", "State"):
        expect(dialog.get_by_role("row", name=re.compile(f"^{name}"))).to_have_count(1)
    # The bound stays as it is, so no window closes because of the pin.
    expect(dialog.get_by_role("row", name=re.compile("^Windows that close"))).to_have_count(0)
    assert watched.faults_in_both_themes() == []
    dialog.get_by_label("Why").fill("INC-7")
    dialog.get_by_role("button", name="Pin it").click()
    expect(page.locator(".verdict-sentence")).to_contain_text(
        "The job is held to its own bound by the pin on stream 'stream' of job 'job': INC-7."
    )
    assert job.controller.http.get(job.pin_url).json()["reason"] == "INC-7"
    dialog = opened(page, "Take the pin away …")
    dialog.get_by_label("Why").fill("INC-7 is over")
    dialog.get_by_role("button", name="Take it away").click()
    expect(page.get_by_role("button", name="Pin …")).to_be_visible()
    assert job.controller.http.get(job.pin_url).status_code == 404
    watched.assert_no_errors()


def test_a_viewer_finds_every_change_switched_off_with_the_role_that_it_takes(
    browser: Browser, job: RolledJob
) -> None:
    token = make_token(job.controller, "viewer")
    with served(job.controller.app) as url, watched_page(browser, url) as watched:
        page = watched.page
        page.goto(url + STREAM)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Continue").click()
        expect(page.locator(".steering")).to_be_visible()
        expect(page.locator(".panel.loading")).to_have_count(0)
        withheld = page.locator("[aria-disabled=true]")
        names = [re.sub(r"\d.*", "", one) for one in withheld.all_text_contents()]
        assert set(names) == {"Review …", "Apply ", "Approve …", "Discard …", "Change …", "Pause …", "Pin …"}
        for button in withheld.all():
            expect(button).to_have_attribute(
                "title", re.compile("takes the role operator or admin; .+ viewer")
            )
        page.get_by_role("button", name="Review …").click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert not [one for one in watched.failed if ": 403" in one]


def test_a_freeze_of_the_policy_is_seen_with_its_end(watched: Watched, job: RolledJob) -> None:
    freeze = {"days": list(get_args(Day)), "from_minute": 0, "to_minute": 1_440}
    job.put("policy", at_once(freeze_windows=[freeze]))
    page = watched.page
    page.reload()
    steering = page.get_by_role("region", name="Steering", exact=True).first
    expect(steering).to_contain_text("no narrowing until ")
    expect(page.get_by_role("list", name="Conditions")).to_contain_text("Narrowing frozen: a freeze window")


def test_in_live_the_headline_is_what_the_driver_waits_for(watched: Watched, job: RolledJob) -> None:
    """The plan has the ceiling, so that every recommended bound would look like a narrowing."""
    job.live, job.live_reason = True, "it waits for rows that come within 8 s of a window's end"
    job.restart(mode="Live")
    job.put("policy", at_once("Live"))
    job.run(4, 5.0)
    page = watched.page
    page.reload()
    verdict = page.get_by_role("region", name="Verdict", exact=True)
    expect(verdict).to_contain_text("It waits for rows that come within 8 s of a window's end.")
    expect(verdict).not_to_contain_text("arrowing")
    expect(page.get_by_role("region", name="Live", exact=True)).to_contain_text("As of the newest batch")


def test_one_point_of_the_budget_is_drawn(browser: Browser, controller: Controller) -> None:
    """A line has no length between one point and itself."""
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 990_000})
    job.run(1, 1.0, rows=2_000)
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open(STREAM)
        card = watched.page.get_by_role("region", name="Budget over the SLO's window", exact=True).first
        expect(card.locator("canvas")).to_be_visible()
        card.get_by_role("button", name="As a table").click()
        expect(card.locator("tbody tr")).to_have_count(1)
        card.get_by_role("button", name="As a table").click()
        drawn = card.locator("canvas").evaluate(
            """canvas => {
                // Above the line at 0, and away from the axes: all of the budget is left.
                const [width, height] = [canvas.width, Math.round(canvas.height / 2)];
                const from = Math.round(width / 4);
                const pixels = canvas.getContext("2d").getImageData(from, 0, width - from, height).data;
                const probe = document.createElement("span");
                probe.style.color = "var(--series-curve)";
                document.body.append(probe);
                const [red, green, blue] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
                let found = 0;
                for (let n = 0; n < pixels.length; n += 4) {
                    if (pixels[n] === red && pixels[n + 1] === green && pixels[n + 2] === blue) found += 1;
                }
                return found;
            }"""
        )
        assert drawn > 10, "the point has the colour of the series"
