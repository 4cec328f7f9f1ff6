"""One stream in a real browser: its charts, the bound to drag, and unknown figures."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tidemark.models.evidence.late_counts import ByValue, LossCounts, late_counts

from support.browser import NARROW, WIDE, Watched, watched_page
from support.shown import SHOWN_HASH, Shown

pytestmark = pytest.mark.slow

CARDS = [
    "How complete windows are",
    "What each bound admits and costs",
    "Bound and needs over time",
    "Late rows over time",
    "Partitions: what their rows needed",
    "Budget over the SLO's window",
    "The bound on its way",
    "Steering",
    "Why this bound",
    "Predictions and outcomes",
    "Evidence",
    "Decision log",
]


def open_stream(watched: Watched) -> Page:
    """Open the stream and wait until each card has what it shows."""
    watched.open(SHOWN_HASH)
    expect(watched.page.locator(".panel.loading")).to_have_count(0)
    expect(watched.page.locator(".preview .figure").first).to_be_visible()
    return watched.page


def ask(shown: Shown, path: str, **parameters: Any) -> dict[str, Any]:
    answer = shown.controller.http.get(shown.job.path + path, params=parameters)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def _seconds(clock: str) -> int:
    hours, minutes, seconds = clock[:8].split(":")
    return (int(hours) * 60 + int(minutes)) * 60 + int(seconds)


def slider_ms(page: Page) -> int:
    return int(page.get_by_role("slider").get_attribute("aria-valuenow") or "-1")


def test_every_card_is_there_and_none_failed(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        for name in CARDS:
            expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
        expect(page.locator(".part-error")).to_have_count(0)
        panels = 2 + any(point["state_rows"] is not None for point in ask(shown, "/curve")["points"])
        expect(page.locator("canvas")).to_have_count(panels + 6)
        watched.assert_no_errors()


def test_who_is_lost_is_shown_once_the_job_counts_by_a_dimension(browser: Browser, shown: Shown) -> None:
    counts = late_counts(
        ByValue({"north": LossCounts(rows=4_000, late=40, max_late_ms=5_000), None: LossCounts(rows=1_000)}),
        ByValue({"7": LossCounts(rows=5_000, late=40, max_late_ms=50_000, late_by_age=(39, 0, 0, 0, 0, 1))}),
        query_id="query",
        source="0",
        first_batch=0,
        last_batch=0,
        hour_us=0,
        dimension="region",
    )
    with watched_page(browser, shown.url) as watched:
        card = open_stream(watched).get_by_role("region", name="Who is lost", exact=True).first
        expect(card).to_be_hidden()
        sent = shown.controller.http.post(f"{shown.job.path}/late-rows", json=counts.to_json_object())
        assert sent.status_code == 201
        watched.page.reload()
        expect(card).to_be_visible()
        rows = [row.inner_text().split("\t") for row in card.locator("tbody tr").all()]
        assert [row[:2] for row in rows] == [["north", "4,000"], ["null", "1,000"], ["7", "5,000"]]
        assert rows[2][7:10] == ["1 s", "50 s", "50 s"], "half by, 99 % by, latest by"
        expect(card).to_contain_text("40 of 5,000 rows over the SLO's window (0.80 %): 40 late")
        watched.assert_no_errors()


def test_nothing_is_wider_than_the_screen(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url, width=WIDE) as watched:
        page = open_stream(watched)
        size = page.viewport_size
        assert size is not None
        for width in (WIDE, 1024, NARROW):
            page.set_viewport_size({"width": width, "height": size["height"]})
            expect(page.locator(".panel.loading")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_way_of_the_bound_has_the_bounds_of_the_status_and_each_once(
    browser: Browser, shown: Shown
) -> None:
    status = shown.job.status()
    expected = {
        "recommended": status["recommended"]["bound_ms"],
        "published": status["published"]["bound_ms"],
        "applied": status["applied"]["bound_ms"],
        "effective": status["effective_bound_ms"],
    }
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        names = page.locator(".stepper .bound-name").all_text_contents()
        texts = page.locator(".stepper .bound-ms").all_text_contents()
    assert names == [*expected, "verified"]
    before = ""
    for name, text in zip(expected, texts, strict=False):
        assert text != before, "a bound that is the one before is not written again"
        before = text or before
        seconds = re.fullmatch(r"([\d.]+) (ms|s)", before)
        assert seconds, before
        shown_ms = float(seconds[1]) * (1 if seconds[2] == "ms" else 1_000)
        assert shown_ms == pytest.approx(expected[name], rel=0.01)


def test_the_verdict_the_handle_and_what_its_bound_does_are_seen_without_scrolling(
    browser: Browser, shown: Shown
) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        for part in (
            ".verdict-sentence",
            ".verdict .button",
            ".preview",
            ".bubble",
            ".curve-plots",
            ".try .button",
        ):
            box = page.locator(part).first.bounding_box()
            assert box is not None, part
            assert box["y"] + box["height"] <= 900, part
        expect(page.locator(".verdict-sentence")).to_have_text(re.compile(r"^Admits .+, target 9\d\s%\. "))


def test_dragging_shows_what_the_bound_does_before_it_is_let_go(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        slider = page.get_by_role("slider")
        box = slider.bounding_box()
        assert box is not None
        before = slider_ms(page)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(1, 9):
            page.mouse.move(x + 15 * step, y)
        dragged = slider_ms(page)
        assert dragged > before
        body = ask(shown, "/preview", bound_ms=dragged)
        expect(page.locator(".preview")).to_contain_text(f"{body['late']:,} of ")
        expect(page.locator(".bubble")).to_have_text(re.compile(r"^[\d.]+ s$"))
        admitted = page.locator(".preview .figure").first.inner_text()
        expect(slider).to_have_attribute(
            "aria-valuetext", re.compile(f": {re.escape(admitted)} admitted, mean ")
        )
        page.mouse.up()
        assert slider_ms(page) == dragged
        watched.assert_no_errors()


def test_the_keys_move_the_bound_and_the_preview_is_the_one_of_the_api(
    browser: Browser, shown: Shown
) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        slider = page.get_by_role("slider")
        slider.focus()
        moved = []
        for key in ("Home", "PageUp", "ArrowRight", "Shift+ArrowRight", "ArrowLeft", "End"):
            page.keyboard.press(key)
            moved.append(slider_ms(page))
        assert moved[0] == 0
        assert 0 < moved[1] < moved[2] < moved[3]
        assert moved[2] <= moved[4] < moved[3]
        assert moved[5] == max(moved) == int(slider.get_attribute("aria-valuemax") or "0")
        page.keyboard.press("Home")
        body = ask(shown, "/preview", bound_ms=0)
        expect(page.locator(".preview")).to_contain_text(f"{body['late']:,} of ")
        expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^0 s: .+ admitted, mean latency .+"))
        watched.assert_no_errors()


def test_new_figures_do_not_move_the_bound_under_the_hand(browser: Browser, shown: Shown) -> None:
    """A curve that arrives while somebody drags is drawn once they let go."""
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        slider = page.get_by_role("slider")
        slider.focus()
        page.keyboard.press("PageUp")
        wanted = slider_ms(page)
        box = slider.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 40, y)
        dragged = slider_ms(page)
        assert dragged > wanted
        shown.job.put(
            "slo", {"target_ppm": 970_000 if shown.job.status()["slo"]["target_ppm"] == 980_000 else 980_000}
        )
        with page.expect_response(re.compile(r"/curve$")):
            page.keyboard.press("r")
        # The next refresh begins when this one is over.
        with page.expect_request(re.compile(r"/streams/[^/]+$")):
            page.keyboard.press("r")
        page.mouse.move(x + 41, y)
        assert slider_ms(page) >= dragged
        page.mouse.up()
        let_go = slider_ms(page)
        expect(page.locator(".preview.pending")).to_have_count(0)
        assert slider_ms(page) == let_go
        after = slider.bounding_box()
        assert after is not None
        assert abs(after["x"] + after["width"] / 2 - (x + 41)) < 4
        watched.assert_no_errors()


def test_a_bound_can_be_typed_and_nonsense_gets_a_message(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        field = page.get_by_label("If the bound were")
        field.fill("1m30s")
        field.press("Enter")
        expect(field).to_have_value("90 s")
        assert slider_ms(page) == 90_000
        field.fill("soon")
        field.press("Enter")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_text("write it like 8.03 s")).to_be_visible()
        assert slider_ms(page) == 90_000
        watched.assert_no_errors()


def test_a_stretch_without_reports_is_no_data_and_a_slot_without_late_rows_is_0(
    browser: Browser, shown: Shown
) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        card = page.get_by_role("region", name="Late rows over time", exact=True)
        card.get_by_role("button", name="As a table").click()
        rows = card.locator("tbody tr").all_text_contents()
        gaps = [row for row in rows if row.endswith("no data")]
        zeros = [row for row in rows if row.endswith("0") and "no data" not in row]
        assert gaps
        assert zeros
        assert len(gaps) + len(zeros) <= len(rows)
        watched.assert_no_errors()


def test_the_gap_is_hatched_where_nothing_was_reported(browser: Browser, shown: Shown) -> None:
    """The same stretch of canvas, inside the gap and beside it: lines on one, plain ground on the other."""
    inks = """([selector, from, to]) => {
        const canvas = document.querySelector(selector + " canvas");
        const context = canvas.getContext("2d");
        const inks = new Set();
        const y = Math.round(canvas.height * 0.3);
        for (let x = Math.round(canvas.width * from); x < canvas.width * to; x++) {
            inks.add(context.getImageData(x, y, 1, 1).data.join());
        }
        return inks.size;
    }"""
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        # Half an hour of an hour's span: on the left nothing had been reported yet.
        hatched = page.evaluate(inks, [".panel-late", 0.15, 0.25])
        plain = page.evaluate(inks, [".panel-late", 0.08, 0.0801])
        assert hatched > 3
        assert plain <= 1


def test_the_heat_map_stands_under_the_charts_moment_by_moment(browser: Browser, shown: Shown) -> None:
    places = """() => ['.panel-bound .u-over', '.panel-late .u-over', '.heat-frame', '.time-strip .u-over']
        .map((one) => document.querySelector(one).getBoundingClientRect())
        .map((box) => [box.left, box.width])"""
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        for width in (WIDE, NARROW):
            page.set_viewport_size({"width": width, "height": 900})
            if width == NARROW:
                page.get_by_role("button", name="History", exact=True).click()
            # The charts follow the new width in the next frame.
            page.wait_for_function(
                f"((found) => found.every((one) => `${{one}}` === `${{found[0]}}`))(({places})())"
            )
        watched.assert_no_errors()


def test_charts_are_read_by_keyboard(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        card = page.get_by_role("region", name="Bound and needs over time", exact=True)
        plot = card.locator(".plot")
        expect(plot).to_have_attribute("aria-label", re.compile("slots have data"))
        plot.focus()
        time = card.locator(".readout-time")
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        last = time.text_content()
        page.keyboard.press("ArrowLeft")
        assert time.text_content() != last
        page.keyboard.press("Home")
        expect(card.locator(".readout-value").first).to_have_text("no data")
        late = page.locator(".panel-late .readout-time")
        expect(late).to_have_text(time.inner_text())
        heat = page.get_by_role("region", name="Partitions: what their rows needed", exact=True)
        heat.locator(".heat-frame").focus()
        page.keyboard.press("ArrowDown")
        expect(heat.locator(".readout").last).to_have_text(re.compile(r"^\d+ at \d\d:\d\d:\d\d: "))
        expect(heat.locator(".heat-cursor")).to_be_visible()
        read = heat.locator(".readout").last.inner_text()
        # Slots of the charts and of the heat map differ in width.
        assert abs(_seconds(late.inner_text()) - _seconds(read.split(" at ")[1])) <= 60
        watched.assert_no_errors()


def test_the_partition_that_costs_most_comes_first_with_what_it_costs(browser: Browser, shown: Shown) -> None:
    (skewed,) = [one for one in ask(shown, "/partitions")["partitions"] if one["skewed"]]
    assert skewed["partition"] == "7"
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        heat = page.get_by_role("region", name="Partitions: what their rows needed", exact=True)
        expect(heat.locator(".skew")).to_contain_text(skewed["text"][1:])
        expect(heat.locator(".heat-names li").first).to_contain_text("7")
        expect(heat.locator(".heat-names li").first).to_contain_text("skewed")
        heat.get_by_role("button", name="As a table").click()
        expect(heat.get_by_role("row", name=re.compile("^7 "))).to_contain_text("skewed")
        watched.assert_no_errors()


@pytest.mark.parametrize("where", ["map", "name", "table"])
def test_a_partition_that_is_clicked_is_laid_over_the_curve_and_the_pointer_reads_both(
    browser: Browser, shown: Shown, where: str
) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        heat = page.get_by_role("region", name="Partitions: what their rows needed", exact=True)
        if where == "map":
            box = heat.locator(".heat-frame").bounding_box()
            assert box is not None
            heat.locator(".heat-frame").click(position={"x": box["width"] * 0.8, "y": 8})
        else:
            if where == "table":
                heat.get_by_role("button", name="As a table").click()
            heat.get_by_role("button", name="7", exact=True).click()
        card = page.locator(".panel-curve")
        expect(card.locator(".readout")).to_contain_text("partition 7; without it the bound is ")
        hide = card.get_by_role("button", name="Hide partition 7")
        expect(hide).to_be_focused()
        plots = card.locator(".curve-plots")
        box = plots.bounding_box()
        assert box is not None
        plots.hover(position={"x": box["width"] * 0.3, "y": box["height"] * 0.5})
        reading = card.locator(".reading")
        expect(reading).to_contain_text("of the partition")
        shown_point = reading.inner_text()
        assert re.search(r"% admitted\s+mean latency \S+ ", shown_point), shown_point
        hide.press("Enter")
        expect(hide).to_have_count(0)
        expect(page.get_by_role("slider")).to_be_focused()
        watched.assert_no_errors()


def test_the_reasons_of_the_recommendation_are_listed_step_by_step(browser: Browser, shown: Shown) -> None:
    steps = shown.job.status()["recommended"]["steps"]
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        body = page.locator(".chain-reason").all_text_contents()
    assert body == [step["reason"] for step in steps]


def test_the_decision_log_goes_back_page_by_page_to_the_first_report(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        log = page.get_by_role("region", name="Decision log", exact=True)
        older = log.get_by_role("button", name="Older")
        while older.is_visible():
            count = log.locator(".events > li").count()
            older.click()
            expect(log.locator(".events > li")).not_to_have_count(count)
        expect(log.locator(".events > li").last).to_contain_text("Stream registered")
        watched.assert_no_errors()


def test_a_span_without_reports_leads_to_the_time_that_has_some(browser: Browser, shown: Shown) -> None:
    before_us = shown.job.status()["evidence"]["from_us"] - 30 * 86_400_000_000
    with watched_page(browser, shown.url) as watched:
        watched.open(f"{SHOWN_HASH}&until={before_us}")
        page = watched.page
        expect(page.locator(".panel-bound .readout-time")).to_have_text("nothing reported")
        page.get_by_role("button", name="Up to now").click()
        expect(page.locator(".panel-bound .readout-time")).to_contain_text("newest")
        assert "until=" not in page.url
        page.get_by_role("button", name="7 d").click()
        assert "span=7d" in page.url
        watched.assert_no_errors()


def test_the_span_is_fitted_to_the_data_until_somebody_chooses_one(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        watched.open("/#/streams/job/stream")
        spans = watched.page.get_by_role("group", name="Time span of the charts")
        note = watched.page.locator(".span-note")
        expect(note).to_contain_text("since the first batch")
        expect(spans.get_by_role("button", pressed=True)).to_have_count(0)
        assert "span=" not in watched.page.url
        spans.get_by_role("button", name="1 h").click()
        expect(spans.get_by_role("button", pressed=True)).to_have_text(["1 h"])
        expect(note).not_to_contain_text("since the first batch")


def test_dragging_over_a_chart_shows_that_part_and_the_address_keeps_it(
    browser: Browser, shown: Shown
) -> None:
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        over = page.locator(".panel-late .u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.6, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.9, y, steps=4)
        page.mouse.up()
        expect(page.get_by_role("button", name="Up to now")).to_be_visible()
        found = re.search(r"from=(\d+)&until=(\d+)", page.url)
        assert found
        seconds = (int(found[2]) - int(found[1])) / 1e6
        assert seconds == pytest.approx(0.3 * 3_600, rel=0.05)
        page.reload()
        page.wait_for_selector(".stream-grid")
        assert found[0] in page.url
        watched.assert_no_errors()


def test_the_budget_ends_with_what_is_left_and_has_the_burn_rates_of_the_api(
    browser: Browser, shown: Shown
) -> None:
    body = ask(shown, "/budget", points=240)
    with watched_page(browser, shown.url) as watched:
        page = open_stream(watched)
        card = page.get_by_role("region", name="Budget over the SLO's window", exact=True).first
        expect(card.locator(".rates dd")).to_have_count(len(body["rates"]))
        left = f"{body['budget']['remaining_ppm'] // 10_000} %".replace("-", "\N{MINUS SIGN}")
        expect(page.locator(".tile-value").first).to_contain_text(left)
        card.get_by_role("button", name="As a table").click()
        expect(card.locator("tbody tr").first).to_contain_text(left)
        watched.assert_no_errors()


def test_on_a_phone_one_part_is_shown_at_a_time(browser: Browser, shown: Shown) -> None:
    parts = {
        "Now": "What each bound admits and costs",
        "Steering": "The bound on its way",
        "History": "Bound and needs over time",
        "Log": "Decision log",
    }
    with watched_page(browser, shown.url, width=NARROW) as watched:
        page = open_stream(watched)
        for tab, card in parts.items():
            page.get_by_role("group", name="Part of the view").get_by_role(
                "button", name=tab, exact=True
            ).click()
            for one in parts.values():
                region = page.get_by_role("region", name=one, exact=True)
                expect(region).to_have_count(1 if one == card else 0)
            assert page.evaluate("document.documentElement.scrollHeight") < 4_000, tab
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, tab
        assert "tab=log" in page.url
        watched.assert_no_errors()


def test_an_unknown_stream_gives_a_message_and_a_way_back(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        watched.open("/#/streams/job/nothing")
        expect(watched.page.get_by_role("heading", level=1)).to_have_text("Unknown stream")
        watched.page.get_by_role("link", name="To the fleet", exact=True).click()
        expect(watched.page.locator("table.fleet")).to_be_visible()
