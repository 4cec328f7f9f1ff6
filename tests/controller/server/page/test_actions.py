"""Actions on the page: each takes a confirmation and a reason, and a rejection comes with its message."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from support.browser import Watched, watched_page
from support.controller_app import Controller
from support.rolled_job import RolledJob
from support.served import served
from support.waiting_job import waiting_job

pytestmark = pytest.mark.slow

STREAM = "/#/streams/job/stream?span=1h"


@pytest.fixture
def job(controller: Controller) -> RolledJob:
    """Return a job with an SLO, whose first rollout waits for approval."""
    return waiting_job(controller)


@pytest.fixture
def watched(browser: Browser, job: RolledJob) -> Iterator[Watched]:
    """Return the job's view."""
    with served(job.controller.app) as url, watched_page(browser, url) as page:
        page.open(STREAM)
        yield page


def confirm(page: Page, button: str, verb: str, reason: str) -> None:
    page.get_by_role("button", name=button).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill(reason)
    dialog.get_by_role("button", name=verb, exact=True).click()
    expect(dialog).to_have_count(0)


def test_a_rollout_is_approved_and_later_rolled_back_with_reasons(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    confirm(page, "Approve …", "Approve", "looked at it with Ada")
    expect(page.get_by_text("Approved.", exact=True)).to_be_visible()
    assert job.rollout()["approved"]["reason"] == "looked at it with Ada"
    job.controller.tick()
    assert job.rollout()["state"] == "Published"
    page.keyboard.press("r")
    confirm(page, "Roll back …", "Roll back", "the join needs more")
    expect(page.locator(".rollout")).to_contain_text("rolled back")
    assert job.rollout()["state"] == "RolledBack"
    assert "the join needs more" in job.events("RolloutRolledBack")[0]["reason"]
    watched.assert_no_errors()


def test_a_rollout_is_discarded(watched: Watched, job: RolledJob) -> None:
    confirm(watched.page, "Discard …", "Discard", "not before the holidays")
    expect(watched.page.locator(".rollout")).to_contain_text("discarded")
    assert job.rollout()["state"] == "Discarded"
    watched.assert_no_errors()


def test_rollouts_are_paused_and_resumed(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    confirm(page, "Pause …", "Pause", "incident 7")
    expect(page.locator(".stream-facts")).to_contain_text("paused")
    assert job.events("Paused")[0]["reason"] == "incident 7"
    confirm(page, "Resume …", "Resume", "incident 7 is over")
    expect(page.get_by_role("button", name="Pause …")).to_be_visible()
    assert job.events("Resumed")[0]["reason"] == "incident 7 is over"
    watched.assert_no_errors()


def test_nothing_is_done_without_a_reason_or_when_it_is_cancelled(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    page.get_by_role("button", name="Approve …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog).to_contain_text("Say why")
    expect(dialog.get_by_label("Why")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Approve …")).to_be_focused()
    assert job.rollout()["approved"] is None
    watched.assert_no_errors()


def test_an_open_dialog_with_its_text_and_the_focus_outlives_a_refresh_and_a_refusal(
    watched: Watched, job: RolledJob
) -> None:
    page = watched.page
    page.get_by_role("button", name="Approve …").click()
    dialog = page.get_by_role("dialog")
    why = dialog.get_by_label("Why")
    why.fill("looked at it with Ada")
    assert job.act(f"/rollouts/{job.rollout()['id']}:discard").status_code == 200
    expect(page.locator(".rollout")).to_contain_text("discarded")
    expect(why).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("is discarded, so it cannot be approved")
    expect(dialog.get_by_role("button", name="Approve", exact=True)).to_be_focused()
    expect(why).to_have_value("looked at it with Ada")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)


def test_a_control_that_a_refresh_makes_anew_keeps_the_focus_and_gets_it_back_from_its_dialog(
    watched: Watched, job: RolledJob
) -> None:
    page = watched.page
    pause = page.get_by_role("button", name="Pause …")
    pause.focus()
    job.put("policy", {"mode": "OnRestart"})
    policy = page.locator(".steering")
    expect(policy).to_contain_text("the first rollout waits")
    expect(pause).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Why")).to_be_visible()
    job.put("policy", {"mode": "Restart"})
    expect(policy).to_contain_text("ModeRestart")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(pause).to_be_focused()


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_a_control_that_is_pressed_while_a_new_answer_comes_does_what_it_is_for(
    watched: Watched, job: RolledJob, by: str
) -> None:
    page = watched.page
    pause = page.get_by_role("button", name="Pause …")
    held: list[Route] = []
    job.put("policy", {"mode": "Restart"})
    page.route("**/policy", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks its handlers
    page.keyboard.press("r")
    while not held:
        page.wait_for_timeout(20)
    if by == "mouse":
        pause.hover()
        page.mouse.down()
    else:
        pause.focus()
        page.keyboard.down(" ")
    with page.expect_response("**/policy"):
        held.pop().continue_()
    page.evaluate("new Promise((done) => setTimeout(() => requestAnimationFrame(done), 100))")
    if by == "mouse":
        page.mouse.up()
    else:
        page.keyboard.up(" ")
    expect(page.get_by_role("dialog").get_by_label("Why")).to_be_visible()
    page.unroute("**/policy")
    page.keyboard.press("Escape")
    expect(page.locator(".steering")).to_contain_text("ModeRestart")


def test_the_slo_is_set_after_its_consequences_were_shown(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    page.get_by_role("button", name="Change the SLO …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Target (%)").fill("97.5")
    dialog.get_by_label("Latency cap").fill("2 min")
    dialog.get_by_label("When no bound meets all").select_option("exceed_latency_cap")
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog).to_contain_text("Consequences")
    sentence = dialog.get_by_text("The recommended bound is")
    expect(sentence).to_have_count(1)
    recommended = sentence.inner_text().removeprefix("The recommended bound is ").removesuffix(".")
    bound = dialog.get_by_role("row", name=re.compile("^Bound"))
    expect(bound).to_have_text(re.compile(rf"60 s\s*{re.escape(recommended)}$"))
    for name in ("Rows admitted", "Mean latency", "Windows that close at once"):
        expect(dialog.get_by_role("row", name=re.compile(f"^{name}"))).to_have_count(1)
    assert watched.serious_faults() == []
    assert job.status()["slo"]["target_ppm"] == 990_000, "a dry run sets nothing"
    dialog.get_by_label("Why").fill("agreed with the analysts")
    dialog.get_by_role("button", name="Set the SLO", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("The SLO is set: 97.5 %")).to_be_visible()
    slo = job.status()["slo"]
    assert (slo["target_ppm"], slo["latency_cap_ms"], slo["on_conflict"]) == (
        975_000,
        120_000,
        "exceed_latency_cap",
    )
    assert slo["horizon_ms"] is None, "what was not touched stays"
    assert job.events("SloSet")[0]["reason"] == "agreed with the analysts"
    watched.assert_no_errors()


@pytest.mark.parametrize(
    ("label", "text", "body"),
    [
        ("Target (%)", "99,9x", "write a share"),
        ("Target (%)", "", "write a share"),
        ("Latency cap", "soon", "write it like"),
    ],
)
def test_an_invalid_field_has_a_message_beside_it(
    watched: Watched, job: RolledJob, label: str, text: str, body: str
) -> None:
    page = watched.page
    page.get_by_role("button", name="Change the SLO …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(label).fill(text)
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog.get_by_label(label)).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_label(label)).to_be_focused()
    expect(dialog.locator(".field", has=page.get_by_label(label))).to_contain_text(body)
    watched.assert_no_errors()


def test_a_rejection_shows_the_message_of_the_controller(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    page.get_by_role("button", name="Change the SLO …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Target (%)").fill("100")
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The body is not valid")
    expect(dialog.get_by_role("alert")).to_contain_text("/target")
    assert job.status()["slo"]["generation"] == 1


@pytest.mark.parametrize("mine", [True, False])
def test_two_who_set_the_slo_at_once_see_each_other_and_one_decides(
    watched: Watched, job: RolledJob, mine: bool
) -> None:
    page = watched.page
    page.get_by_role("button", name="Change the SLO …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Target (%)").fill("97")
    dialog.get_by_label("Why").fill("mine")
    job.put("slo", {"target_ppm": 995_000, "latency_cap_ms": 90_000})
    dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog).to_contain_text("Somebody else has set the SLO meanwhile")
    expect(dialog.get_by_role("row", name=re.compile("^Target"))).to_have_text(
        re.compile(r"Target\s*99 %\s*99.5 %\s*97 %")
    )
    if mine:
        dialog.get_by_role("button", name="Keep mine").click()
    else:
        dialog.get_by_role("button", name="Take theirs").click()
        expect(dialog.get_by_label("Target (%)")).to_have_value("99.5")
        dialog.get_by_label("Target (%)").fill("99.7")
        dialog.get_by_label("Why").fill("theirs, and a little more")
        dialog.get_by_role("button", name="Show the consequences").click()
    expect(dialog).to_contain_text("Consequences")
    dialog.get_by_role("button", name="Set the SLO", exact=True).click()
    expect(dialog).to_have_count(0)
    slo = job.status()["slo"]
    assert (slo["generation"], slo["target_ppm"]) == (3, 970_000 if mine else 997_000)
    assert slo["latency_cap_ms"] == (None if mine else 90_000)


def test_the_first_slo_of_a_stream_is_set_here_too(browser: Browser, controller: Controller) -> None:
    job = RolledJob(controller)
    job.run(2, 1.0)
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open(STREAM)
        page = watched.page
        page.get_by_role("button", name="Set an SLO …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Target (%)").fill("99.5")
        dialog.get_by_label("Why").fill("the first")
        dialog.get_by_role("button", name="Show the consequences").click()
        expect(dialog).to_contain_text("Consequences")
        dialog.get_by_role("button", name="Set the SLO", exact=True).click()
        expect(page.get_by_role("button", name="Change the SLO …")).to_be_visible()
        watched.assert_no_errors()
    assert job.status()["slo"]["target_ppm"] == 995_000


def test_a_first_slo_that_somebody_else_has_just_set_is_a_conflict_too(
    browser: Browser, controller: Controller
) -> None:
    job = RolledJob(controller)
    job.run(2, 1.0)
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open(STREAM)
        watched.page.get_by_role("button", name="Set an SLO …").click()
        dialog = watched.page.get_by_role("dialog")
        dialog.get_by_label("Target (%)").fill("99.5")
        job.put("slo", {"target_ppm": 900_000})
        dialog.get_by_role("button", name="Show the consequences").click()
        expect(dialog).to_contain_text("Somebody else has set the SLO meanwhile")
        dialog.get_by_role("button", name="Take theirs").click()
        expect(dialog.get_by_label("Target (%)")).to_have_value("90")


def test_a_rollout_that_somebody_else_has_ended_gives_a_message(watched: Watched, job: RolledJob) -> None:
    page = watched.page
    page.get_by_role("button", name="Approve …").click()
    assert job.act(f"/rollouts/{job.rollout()['id']}:discard").status_code == 200
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("too late")
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("is discarded, so it cannot be approved")
