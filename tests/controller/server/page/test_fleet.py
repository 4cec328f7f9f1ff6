"""The fleet in a real browser: its rows and their order, the keyboard alone, and hostile names."""

from __future__ import annotations

import re
from typing import get_args
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tidemark.controller.base.db.tables import SloRow
from tidemark.controller.specs.store import slo_values
from tidemark.controller.specs.streams import lock_stream
from tidemark.models.specs.slo import Day, Slo

from support.browser import NARROW, WIDE, watched_page
from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.served import served
from support.shown import Shown
from support.tokens import make_token
from support.waiting_job import waiting_job

pytestmark = pytest.mark.slow

HOSTILE = [
    "<img src=x onerror=document.title='taken'>",
    "\"><script>document.title='taken'<\\script>",
    "${alert(1)} {{7*7}} &lt;b&gt;",
    "javascript:alert(1)",
]


def test_a_row_shows_the_mode_bounds_completeness_and_budget(browser: Browser, shown: Shown) -> None:
    fleet = shown.controller.http.get("/v1/fleet").json()["streams"][0]
    with watched_page(browser, shown.url) as watched:
        watched.open()
        row = watched.page.locator("table.fleet").get_by_role("row", name="job / stream")

        expect(row).to_contain_text("OnRestart")
        expect(row.locator("[data-label='Complete over the window']")).to_contain_text("of 98 %")
        expect(row.locator("[data-label='Budget left']")).to_have_text(
            f"{fleet['budget_remaining_ppm'] // 10_000} %".replace("-", "\N{MINUS SIGN}")
        )
        assert fleet["recommended_bound_ms"] is not None
        expect(row.locator("[data-label=Bound]")).to_contain_text(" s")
        expect(row.locator("[data-label='Complete now']")).to_contain_text("provisional")
        watched.assert_no_errors()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_stream_that_cannot_decide_yet_shows_its_estimate_hatched_with_what_it_rests_on(
    browser: Browser, controller: Controller, width: int
) -> None:
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 990_000})
    job.put("policy", {"mode": "OnRestart"})
    job.run(6, 40.0)
    controller.snapshot()
    text = job.status()["provisional_bound"]["text"]
    with (
        served(controller.app) as url,
        watched_page(browser, url, width=width, bypass_csp=True) as watched,
    ):
        watched.open()
        cell = watched.page.locator("table.fleet tbody tr [data-label=Bound]")
        expect(cell.locator(".hatched")).to_have_text(re.compile(r"provisionally [\d.]+ s$"))
        expect(cell.locator(".hatched")).to_have_attribute("title", f"{text[0].upper()}{text[1:]}.")
        expect(cell).to_contain_text(
            re.compile(r"provisional, at least [\d.]+ s; from 19 s, narrows from 10 h")
        )
        assert watched.faults_in_both_themes() == []
        watched.assert_no_errors()


def test_a_phone_shows_mode_completeness_and_the_last_rollout_and_no_line_that_says_nothing(
    browser: Browser, shown: Shown
) -> None:
    with watched_page(browser, shown.url, width=NARROW) as watched:
        watched.open()
        row = watched.page.locator("table.fleet tbody tr")
        for name in ("Mode", "Budget left", "Complete over the window", "Bound"):
            expect(row.locator(f"[data-label='{name}']")).to_be_visible()
        for name in ("Last rollout", "Worst condition"):
            cell = row.locator(f"[data-label='{name}']")
            expect(cell).to_be_visible(visible=cell.text_content() != "none")


def test_the_savings_are_those_of_the_api_and_a_stream_that_loses_rows_unknown_to_anyone_comes_first(
    browser: Browser, controller: Controller
) -> None:
    steady = RolledJob(controller, job="steady", bound_ms=60_000)
    steady.put("slo", {"target_ppm": 990_000})
    losing = RolledJob(controller, job="losing", bound_ms=1_000)
    for _ in range(150):
        steady.run(1, 20.0, tick=False)
        losing.run(1, 40.0, tick=False)
    controller.tick()
    controller.snapshot()
    answer = controller.http.get("/v1/savings").json()
    assert [row["job"] for row in answer["streams"]] == ["losing", "steady"]
    hours = answer["totals"]["waiting_ms"]["saved"]["min"] / 3_600_000
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        card = watched.page.get_by_role("region", name="Savings")
        expect(card.locator("summary")).to_contain_text(f"waiting {hours:.3g} h less")
        expect(card.locator("summary")).to_contain_text("1 stream loses rows")
        rows = card.locator("tbody tr")
        expect(rows.first).to_contain_text("losing / stream loses rows")
        expect(rows.first).to_contain_text("Nothing is recommended: no SLO is set.")
        expect(rows.nth(1)).to_contain_text(" → ")
        watched.assert_no_errors()


def test_the_counts_add_up_to_all_and_each_shows_only_its_streams(
    browser: Browser, controller: Controller
) -> None:
    """A stream that has lost more than its budget counts as critical, and only there."""
    losing = RolledJob(controller, job="losing", bound_ms=1_000)
    losing.run(2, 1.0, tick=False)
    losing.put("slo", {"target_ppm": 999_000})
    losing.run(20, 40.0, tick=False)
    for number in range(3):
        controller.http.put(f"/v1/jobs/shop/streams/s{number}/slo", json={"target_ppm": 990_000})
    controller.snapshot()
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        page = watched.page
        texts = page.locator(".summary .level").all_text_contents()
        counts = {name: int(number) for number, name in (text.split() for text in texts)}
        assert list(counts) == ["critical", "warning", "ok"]
        assert sum(counts.values()) == 4
        assert counts["critical"] == 1
        for name, count in counts.items():
            page.get_by_role("button", name=re.compile(name)).click()
            expect(page.locator("table.fleet tbody tr:visible")).to_have_count(count)
            assert f"level={name}" in page.url
            page.get_by_role("button", name=re.compile(name)).click()
        watched.assert_no_errors()


def test_a_press_on_a_heading_orders_and_the_address_keeps_order_and_groups(
    browser: Browser, controller: Controller
) -> None:
    for job, stream in (("b", "z"), ("a", "y"), ("b", "x")):
        controller.http.put(f"/v1/jobs/{job}/streams/{stream}/slo", json={"target_ppm": 990_000})
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        page = watched.page
        links, heading = page.locator("a.stream-link"), page.get_by_role("columnheader", name="Stream")
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "ascending")
        expect(links).to_have_text(["a / y", "b / x", "b / z"])
        heading.get_by_role("button").click()
        expect(links).to_have_text(["b / z", "b / x", "a / y"])
        page.get_by_role("button", name="By job").click()
        folded = page.get_by_role("button", name="b 2 streams")
        expect(links).to_have_text(["a / y"])
        assert "sort=-stream" in page.url
        page.reload()
        expect(links).to_have_text(["a / y"])
        expect(folded).to_have_attribute("aria-expanded", "false")
        watched.assert_no_errors()


def test_what_waits_for_approval_is_listed_first_and_leads_to_its_dialog(
    browser: Browser, controller: Controller
) -> None:
    job = waiting_job(controller)
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        page = watched.page
        queue = page.get_by_role("region", name="Waits for approval")
        expect(queue).to_contain_text("1 rollout waits for approval")
        queue.get_by_role("link", name="Review the rollout of job / stream").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"Approve rollout {job.rollout()['id']}?")
        assert "review" not in page.url, "a reload does not open it again"
        watched.assert_no_errors()


@pytest.mark.long
def test_all_that_wait_are_approved_with_one_reason_after_a_dry_run_and_each_is_shown(
    browser: Browser, controller: Controller
) -> None:
    """One is held by a freeze set meanwhile, and another is discarded between the dry run and the approval."""
    first, frozen, gone = (waiting_job(controller, name) for name in ("first", "frozen", "gone"))
    every_day = {"days": list(get_args(Day)), "from_minute": 0, "to_minute": 1_440}
    frozen.put("policy", at_once(approval="all", freeze_windows=[every_day]))
    with served(controller.app) as url, watched_page(browser, url, bypass_csp=True) as watched:
        watched.open()
        page = watched.page
        page.get_by_role("button", name="Approve all that wait (3) …").focus()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Approve all that wait?")
        row = {job: dialog.get_by_role("row", name=f"{job} / stream") for job in ("first", "frozen", "gone")}
        expect(dialog.get_by_role("status")).to_have_text(
            "Nothing is done yet. Of 3 rollouts: 2 published, 1 held: freeze."
        )
        expect(row["first"]).to_contain_text(re.compile(r"60 s → [\d.]+ s.*published"))
        expect(row["frozen"]).to_contain_text("nothing is narrowed in the freeze until", ignore_case=True)
        assert watched.faults_in_both_themes() == []
        assert first.rollout()["state"] == "AwaitingApproval", "a dry run approves nothing"
        assert gone.act(f"/rollouts/{gone.rollout()['id']}:discard").status_code == 200
        dialog.get_by_role("button", name="Approve 3 rollouts").click()
        expect(dialog).to_contain_text("Say why")
        page.keyboard.type("looked at the savings")
        dialog.get_by_role("button", name="Approve 3 rollouts").click()
        expect(dialog.get_by_role("status")).to_have_text(
            "Done. Of 3 rollouts: 1 published, 1 held: freeze, 1 cannot be approved."
        )
        expect(row["gone"]).to_contain_text("is discarded, so it cannot be approved")
        expect(dialog.get_by_role("button", name="Close")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Waits for approval")).to_be_hidden()
        assert first.rollout()["approved"]["reason"] == "looked at the savings"
        assert [job.rollout()["state"] for job in (first, frozen, gone)] == [
            "Published",
            "Recommended",
            "Discarded",
        ]


def test_whoever_may_not_approve_reads_why(browser: Browser, controller: Controller) -> None:
    waiting_job(controller)
    token = make_token(controller, "viewer")
    with served(controller.app) as url, watched_page(browser, url) as watched:
        page = watched.page
        watched.open()
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        approve = page.get_by_role("button", name="Approve all that wait")
        expect(approve).to_have_attribute("aria-disabled", "true")
        expect(approve).to_have_attribute("aria-description", re.compile("role operator or admin"))
        approve.click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_no_column_is_cut_on_a_desktop_screen(browser: Browser, controller: Controller) -> None:
    """With long names, large figures and a condition of the longest name."""
    job = RolledJob(
        controller, job="payments-emea-production", stream="card-authorisations", bound_ms=754_321
    )
    job.run(3, 1.0, tick=False)
    job.put("slo", {"target_ppm": 999_990})
    job.put("policy", at_once())
    job.run(3, 1.0)
    controller.snapshot()
    cut = """() => [...document.querySelectorAll('.fleet th, .fleet td')].filter((cell) => {
        const box = cell.getBoundingClientRect(), card = cell.closest('.card').getBoundingClientRect();
        return box.right > card.right + 0.5 || cell.scrollWidth > cell.clientWidth + 1;
    }).map((cell) => cell.className)"""
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        expect(watched.page.locator("table.fleet tbody tr")).to_have_count(1)
        assert watched.page.evaluate(cut) == []


def test_hostile_names_are_shown_as_text(browser: Browser, controller: Controller) -> None:
    for name in HOSTILE:
        answer = controller.http.put(
            f"/v1/jobs/{quote(name, safe='')}/streams/{quote(name, safe='')}/slo",
            json={"target_ppm": 990_000},
        )
        assert answer.status_code == 200, answer.text
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        body = watched.page.locator("a.stream-link").all_text_contents()
        assert sorted(body) == sorted(f"{name} / {name}" for name in HOSTILE)
        for number in range(len(HOSTILE)):
            watched.open()
            link = watched.page.locator("a.stream-link").nth(number)
            name = (link.text_content() or "").split(" / ")[0]
            link.click()
            expect(watched.page.get_by_role("heading", level=1)).to_have_text(name)
            assert watched.page.title() == f"{name} / {name} · Tidemark"
            assert watched.page.locator("main img, main script, main b").count() == 0
        watched.assert_no_errors()


def test_the_keyboard_alone_filters_finds_and_opens_a_stream(
    browser: Browser, controller: Controller
) -> None:
    for number in range(30):
        controller.http.put(f"/v1/jobs/shop/streams/s{number:02d}/slo", json={"target_ppm": 990_000})
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        page = watched.page
        page.keyboard.press("/")
        page.keyboard.type("s1")
        expect(page.locator("table.fleet tbody tr:visible")).to_have_count(10)
        assert "q=s1" in page.url
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator("a:focus")).to_have_text("shop / s11")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("s11")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys and signs")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("f")
        expect(page.locator("table.fleet")).to_be_visible()
        page.go_back()
        page.go_back()
        expect(page.get_by_role("searchbox")).to_have_value("s1")
        watched.assert_no_errors()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_of_five_hundred_streams_only_those_in_the_window_are_rows_of_the_document(
    browser: Browser, controller: Controller, width: int
) -> None:
    _add_streams(controller, 500)
    with served(controller.app) as url, watched_page(browser, url, width=width) as watched:
        page, asked = watched.page, []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        page.clock.install(time=0)
        page.clock.pause_at(1_000)  # so that nothing is requested again
        watched.open("/#/?group=stream")
        rows = page.locator("table.fleet tbody tr[role=row]")
        expect(rows.first).to_contain_text("job-00 / 000")
        assert rows.count() < 100
        expect(page.locator("table.fleet")).to_have_attribute("aria-rowcount", "501")
        page.keyboard.press("j")
        expect(page.locator("a:focus")).to_have_text("job-00 / 000")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(rows.last).to_contain_text("job-49 / 499")
        expect(rows.last).to_have_attribute("aria-rowindex", "501")
        assert rows.count() < 100
        expect(page.locator("a:focus")).to_have_text("job-00 / 000")
        page.get_by_role("searchbox").fill("499")
        expect(rows).to_have_count(1)
        assert [path for path in asked if path.startswith("/v1/")] == [
            "/v1/fleet",
            "/v1/savings",
            "/v1/caller",
        ]
        watched.assert_no_errors()


def test_a_job_opens_by_keyboard_keeps_the_focus_over_a_refresh_and_a_search_opens_what_it_finds(
    browser: Browser, controller: Controller
) -> None:
    _add_streams(controller, 30)
    with served(controller.app) as url, watched_page(browser, url, bypass_csp=True) as watched:
        watched.open()
        page = watched.page
        links = page.locator("a.stream-link")
        page.get_by_role("button", name="By job").click()
        expect(links).to_have_count(0)
        job = page.get_by_role("button", name="job-01 10 streams")
        expect(job).to_have_attribute("aria-expanded", "false")
        job.focus()
        page.keyboard.press("Enter")
        expect(job).to_have_attribute("aria-expanded", "true")
        expect(job).to_be_focused()
        expect(links).to_have_count(10)
        assert watched.faults_in_both_themes() == []
        page.keyboard.press("j")
        expect(page.locator("a:focus")).to_contain_text("010")
        path = "/v1/jobs/job-01/streams/010/policy"
        assert controller.http.put(path, json={"mode": "Live"}).status_code == 200
        expect(page.locator("tr:has(a:focus) [data-label=Mode]")).to_have_text("Live")
        page.get_by_role("searchbox").fill("025")
        expect(links).to_have_count(1)
        page.get_by_role("searchbox").fill("job-02")
        expect(page.get_by_role("button", name="job-02 10 streams")).to_have_attribute(
            "aria-expanded", "true"
        )
        expect(links).to_have_count(10)
        page.get_by_role("searchbox").fill("")
        expect(links).to_have_count(0)
        watched.assert_no_errors()


def test_a_fleet_of_many_streams_opens_folded_with_trouble_first_and_one_press_shows_it(
    browser: Browser, controller: Controller
) -> None:
    _add_streams(controller, 110)
    losing = RolledJob(controller, job="job-10", stream="losing", bound_ms=1_000)
    losing.put("slo", {"target_ppm": 999_000})
    losing.run(20, 40.0, tick=False)
    controller.snapshot()
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        page = watched.page
        rows, links = page.locator("table.fleet tbody tr[role=row]"), page.locator("a.stream-link")
        choice = page.get_by_role("button", name="By job")
        expect(choice).to_have_attribute("aria-pressed", "true")
        expect(rows).to_have_count(11)
        expect(rows.first).to_contain_text("job-10 11 streams")
        page.get_by_role("button", name="1 critical").click()
        expect(links).to_have_text(["job-10 / losing"])
        page.get_by_role("button", name="1 critical").click()
        expect(links).to_have_count(0)
        choice.click()
        expect(links.first).to_have_text("job-10 / losing")
        assert "group=stream" in page.url
        watched.assert_no_errors()


def _add_streams(controller: Controller, count: int) -> None:
    """Add streams with an SLO, ten to a job."""
    slo = slo_values(Slo(target_ppm=990_000))
    with controller.service.database.write() as session:
        for number in range(count):
            stream = lock_stream(session, f"job-{number // 10:02d}", f"{number:03d}")
            session.add(SloRow(stream_id=stream.id, generation=1, updated_us=controller.clock(), **slo))


@pytest.mark.parametrize("width", [WIDE, 1024, NARROW])
def test_nothing_is_wider_than_the_screen(browser: Browser, shown: Shown, width: int) -> None:
    with watched_page(browser, shown.url, width=width) as watched:
        watched.open()
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_empty_fleet_says_what_to_do(browser: Browser, controller: Controller) -> None:
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        start = watched.page.get_by_role("region", name="Start")
        expect(start.get_by_role("heading", name="No stream is known yet")).to_be_visible()
        for command in (
            "adaptive_watermark(",
            f"spark.tidemark.controller.url={url}/",
            "tidemark doctor",
            "tidemark demo",
        ):
            expect(start).to_contain_text(command)
        expect(watched.page.locator("table.fleet")).to_be_hidden()
        watched.assert_no_errors()
