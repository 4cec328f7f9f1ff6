// The scales of the curve.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as scales from "../../../../controller/server/page/static/curve_scales.js";

const CURVE = {
    recommended_bound_ms: 20_000,
    operating: { bound_ms: 30_000 },
    points: [0, 10_000, 60_000].map((bound_ms) => ({ bound_ms })),
};

test("the scale has room beyond the widest bound and bends at half the recommended one", () => {
    assert.deepEqual(scales.boundScale(CURVE, null), { maxMs: 69_000, bendMs: 10_000 });
    assert.deepEqual(
        scales.boundScale({ recommended_bound_ms: null, operating: { bound_ms: null }, points: [] }, null),
        {
            maxMs: 1_150,
            bendMs: 500,
        },
    );
});

test("the scale stays as it is while the figures change a little", () => {
    const shown = scales.boundScale(CURVE, null);
    assert.equal(scales.boundScale({ ...CURVE, recommended_bound_ms: 25_000 }, shown), shown);
    assert.notEqual(scales.boundScale({ ...CURVE, operating: { bound_ms: 200_000 } }, shown), shown);
});

test("a step moves the bound at least 1 ms and never below 0", () => {
    const scale = scales.boundScale(CURVE, null);
    let bound = 0;
    for (let n = 0; n < 150; n++) {
        const next = Math.round(scales.stepped(scale, bound, 1));
        assert.ok(next > bound);
        bound = next;
    }
    assert.ok(bound > scale.maxMs, "100 steps and some rounding cross the scale");
    assert.ok(scales.stepped(scale, 10_000, -10) < 10_000);
});

test("losses of 10 %, 1 % and 0.1 % are equally far apart", () => {
    const [a, b, c] = [900_000, 990_000, 999_000].map((ppm) => scales.lossHeight(ppm, 6));
    assert.ok(Math.abs(b - a - 1) < 1e-9 && Math.abs(c - b - 1) < 1e-9);
    assert.equal(scales.lossHeight(1_000_000, 4), 4, "all is at the top");
    assert.equal(scales.lossHeight(null, 4), null);
    for (const ppm of [0, 500_000, 995_000, 999_990]) {
        assert.equal(scales.shareAtHeight(scales.lossHeight(ppm, 6)), ppm);
    }
});

test("the top leaves room above the target", () => {
    for (const ppm of [900_000, 990_000, 999_000]) assert.ok(scales.topHeight(ppm) > scales.lossHeight(ppm, 9) + 1);
    assert.equal(scales.shareAtHeight(scales.topHeight(null)), 999_900);
});

test("a point of which only an interval is known stands in its middle", () => {
    const point = { completeness_ppm: null, completeness_min_ppm: 980_000, completeness_max_ppm: 1_000_000 };
    assert.equal(scales.middleHeight(point, 6), scales.lossHeight(990_000, 6));
    assert.equal(scales.middleHeight({ ...point, completeness_min_ppm: null }, 6), null);
});

test("labels are in order and far enough apart, and the target always has one", () => {
    const axis = { bottom: 1, top: 4, pixels: 200 };
    const heights = scales.lossTicks(axis, 985_000);
    assert.ok(heights.includes(scales.lossHeight(985_000, 4)));
    heights.slice(1).forEach((height, n) => {
        assert.ok(((height - heights[n]) / 3) * 200 >= 22);
    });
    const bounds = scales.boundTicks(60_000, (ms) => ms / 100);
    assert.deepEqual(
        bounds,
        [0, 10_000, 20_000, 30_000, 60_000].filter((ms) => bounds.includes(ms)),
    );
    assert.ok(bounds.includes(0) && bounds.includes(60_000));
});

test("the point at the pointer is the nearest on the scale, not in milliseconds", () => {
    const scale = { maxMs: 69_000, bendMs: 1_000 };
    assert.equal(scales.nearestPoint(CURVE.points, 30_000, scale)?.bound_ms, 60_000);
    assert.equal(scales.nearestPoint(CURVE.points, 1_000, scale)?.bound_ms, 0);
    assert.equal(scales.nearestPoint([], 1_000, scale), undefined);
});
