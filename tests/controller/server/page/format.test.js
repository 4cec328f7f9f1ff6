// How the page writes numbers. An unknown number is a dash and never 0, and nothing is rounded to look better.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../../../controller/server/page/static/format.js";

const {
    about,
    ago,
    between,
    budget,
    bytes,
    coarse,
    count,
    duration,
    exactDuration,
    latency,
    parseDuration,
    share,
    shares,
} = format;
const NOON_US = new Date(2025, 2, 4, 12, 0, 0).getTime() * 1_000;

for (const name of [
    "count",
    "about",
    "duration",
    "exactDuration",
    "share",
    "target",
    "budget",
    "bytes",
    "moment",
    "ago",
]) {
    test(`${name}: an unknown number is a dash`, () => {
        assert.equal(format[name](null), "–");
        assert.equal(format[name](undefined), "–");
    });
}

test("moments in a text of the controller are written as all others on the page", () => {
    const [date, time] = [new Date(NOON_US / 1_000).toISOString().slice(0, 10), "12:00:00"];
    const noon = new Date(`${date}T${time}Z`).getTime() * 1_000;
    const text = `the cooldown of 1 h ends ${date} ${time} UTC, every day 8:00 to 17:00 UTC`;
    const expected = `the cooldown of 1 h ends ${format.moment(noon, NOON_US)}, every day 8:00 to 17:00 UTC`;
    assert.equal(format.localTimes(text, NOON_US), expected);
});

test("what rounds to two minutes is written so, from below and from above", () => {
    const texts = [119_940, 119_960, 120_000, 120_400].map((ms) => format.duration(ms));
    assert.deepEqual(texts, ["119.9 s", "2 min", "2 min", "2 min"]);
});

test("hours have three digits, and a separator where there are more", () => {
    const texts = [0, 180_000, 36e5 * 26.44, -36e5 * 240, 36e5 * 1620.4].map((ms) => format.hours(ms));
    assert.deepEqual(texts, ["0 h", "0.05 h", "26.4 h", "-240 h", "1,620 h"]);
});

test("of a number that is known between limits the page claims no more than these", () => {
    const all = [
        [3, 3],
        [3, 5],
        [3, null],
        [null, 5],
        [null, null],
    ];
    const texts = all.map(([min, max]) => between({ min, max }, String));
    assert.deepEqual(texts, ["3", "3 to 5", "at least 3", "at most 5", "–"]);
});

test("a share is rounded down, and only all is 100 %", () => {
    assert.equal(share(1_000_000), "100\u00a0%");
    for (let ppm = 0; ppm < 1_000_000; ppm += 997) {
        const read = Number(share(ppm).replace("\u00a0%", ""));
        assert.ok(ppm / 10_000 - 0.01 < read && read <= ppm / 10_000 + 1e-9, `${ppm}: ${share(ppm)}`);
    }
    assert.deepEqual([999_999, 999_900, 999_899, 989_999].map(share), [
        "99.9999\u00a0%",
        "99.9900\u00a0%",
        "99.989\u00a0%",
        "98.99\u00a0%",
    ]);
});

test("an interval of shares is one share when its ends read the same", () => {
    assert.equal(shares(990_000, 995_000), "99.00 – 99.50\u00a0%");
    assert.equal(shares(990_000, 990_001), "99.00\u00a0%");
    assert.equal(shares(null, 990_000), "99.00\u00a0%");
    assert.equal(shares(null, null), "–");
});

test("a target is written in full", () => {
    assert.deepEqual([995_000, 999_999, 900_000].map(format.target), ["99.5\u00a0%", "99.9999\u00a0%", "90\u00a0%"]);
});

test("a budget is never rounded up", () => {
    assert.deepEqual([1_000_000, 999_999, 9_999, 0, -1, -3_400_000].map(budget), [
        "100\u00a0%",
        "99\u00a0%",
        "0\u00a0%",
        "0\u00a0%",
        "−1\u00a0%",
        "−340\u00a0%",
    ]);
});

test("a latency that is not measured is a minimum, or not known", () => {
    assert.equal(latency({ latency_wall_ms: 12_000, latency_at_least_ms: null }), "12 s");
    assert.equal(latency({ latency_wall_ms: null, latency_at_least_ms: 100_000 }), "at least 100 s");
    assert.equal(latency({ latency_wall_ms: null }), "–");
});

test("durations have two units at most", () => {
    assert.deepEqual([0, 450, 8_034, 12_340, 150_000, 3_661_000, 100_800_000, -1_500].map(duration), [
        "0 s",
        "450 ms",
        "8.03 s",
        "12.3 s",
        "2 min 30 s",
        "1 h 1 min",
        "1 d 4 h",
        "−1.5 s",
    ]);
    assert.deepEqual([3_999, 299_000, 7_300_000].map(coarse), ["3 s", "4 min", "2 h"]);
});

test("an exact duration is read back to the millisecond", () => {
    for (const ms of [0, 1, 999, 1_000, 59_999, 119_999, 120_001, 3_600_000, 86_400_000, 987_654_321]) {
        assert.equal(parseDuration(exactDuration(ms)), ms, exactDuration(ms));
    }
});

test("people write durations in several ways", () => {
    assert.deepEqual(
        ["90", "1h30m", "1,5 min", " 2 D ", "450ms"].map(parseDuration),
        [90_000, 5_400_000, 90_000, 172_800_000, 450],
    );
});

for (const text of ["", "soon", "-3 s", "5 parsecs", "1h30", "s", "1 s x"]) {
    test(`“${text}” is not a duration`, () => assert.equal(parseDuration(text), null));
}

test("large numbers have three digits", () => {
    assert.deepEqual([0, 950, 9_999, 12_345, 4_560_000, 7e9, 1.234].map(about), [
        "0",
        "950",
        "9,999",
        "12.3 k",
        "4.56 M",
        "7 G",
        "1.23",
    ]);
    assert.equal(count(1_234_567), "1,234,567");
    assert.deepEqual([512, 1_536, 3 * 1_024 ** 4].map(bytes), ["512 B", "1.5 KiB", "3 TiB"]);
});

test("a moment has its day only when that is not today", () => {
    assert.equal(format.moment(NOON_US, NOON_US), "12:00:00");
    assert.match(format.moment(NOON_US, NOON_US + 86_400_000_000), /^4 Mar.* 12:00:00$/);
    assert.equal(ago(NOON_US, NOON_US + 1_000_000), "just now");
    assert.equal(ago(NOON_US, NOON_US + 61_000_000), "1 min ago");
});

test("no number is written in scientific notation", () => {
    for (const size of [-24, -7, -3, 0, 3, 9, 21, 24]) {
        for (const number of [1.234 * 10 ** size, -(10 ** size)]) {
            for (const text of [
                format.digits(number, 3),
                format.trimmed(number, 3),
                about(number),
                duration(number),
                bytes(number),
            ]) {
                assert.doesNotMatch(text, /\de/i, `${number}`);
            }
        }
    }
    assert.equal(format.digits(0.000000123, 2), "0.00000012");
});
