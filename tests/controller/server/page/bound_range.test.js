// The vertical scale of bounds and needs over time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bendOf, rangeOf, spansBelow } from "../../../../controller/server/page/static/bound_range.js";

const slot = (figures) => ({
    from_us: 0,
    in_use_bound_ms: null,
    effective_bound_ms: null,
    need_p50_ms: null,
    need_p90_ms: null,
    need_target_ms: null,
    ...figures,
});

test("the scale is logarithmic only where the values span more than two decades", () => {
    assert.equal(bendOf([]), null);
    assert.equal(bendOf([slot({ in_use_bound_ms: 60_000, need_p90_ms: 600 })]), null);
    assert.equal(bendOf([slot({ in_use_bound_ms: 60_000, need_p90_ms: 599 })]), 599);
    assert.equal(bendOf([slot({ in_use_bound_ms: 60_000, need_p90_ms: -5 })]), null);
    assert.equal(bendOf([slot({ in_use_bound_ms: 3_600_000, need_p90_ms: 1 })]), 360);
});

test("the scale begins at 0 and has room for every bound", () => {
    assert.deepEqual(rangeOf([]), [0, 1_080]);
    assert.deepEqual(
        rangeOf([slot({ in_use_bound_ms: 10_000, need_p50_ms: -9_000, need_p90_ms: 2_000 })]),
        [0, 10_800],
    );
    const [, top] = rangeOf([slot({ in_use_bound_ms: 1_000, need_target_ms: 900_000 })]);
    assert.equal(top, 2_250_000);
});

test("one slot of huge needs does not flatten the others on an even scale", () => {
    const usual = Array.from({ length: 99 }, () => slot({ in_use_bound_ms: 10_000, need_p90_ms: 8_000 }));
    assert.deepEqual(rangeOf([...usual, slot({ need_p90_ms: 500_000 })]), [0, 27_000]);
});

test("slots in a row with a need below 0 are one span", () => {
    const slots = [-1, -1, 5, null, -1].map((need_p50_ms, n) => slot({ from_us: n * 10, need_p50_ms }));
    assert.deepEqual(spansBelow(slots, 10), [
        [0, 20],
        [40, 50],
    ]);
});
