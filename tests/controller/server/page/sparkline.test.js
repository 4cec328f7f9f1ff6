import assert from "node:assert/strict";
import { test } from "node:test";

import { sparkPath } from "../../../../controller/server/page/static/sparkline.js";

test("a course fills the width, the newest part at the right end", () => {
    assert.equal(sparkPath([0]).line, "M62.5 14.5h0");
    assert.equal(sparkPath([1_000_000, 0]).line, "M1.5 1.5h0L62.5 14.5");
    assert.match(sparkPath(Array(24).fill(1_000_000)).line, /^M1.5 1.5h0L.*L62.5 1.5$/);
});

test("a part without a figure leaves a gap", () => {
    assert.equal(sparkPath([0, null, 0, 0]).line.match(/M/g)?.length, 2);
});

test("an overdrawn budget stretches the scale and moves 0 up", () => {
    assert.equal(sparkPath([1_000_000, 0]).zero, 14.5);
    const { line, zero } = sparkPath([1_000_000, -1_000_000]);
    assert.equal(zero, 8);
    assert.match(line, /L62.5 14.5$/);
});
