// Which rows of a long table are in the document.

import assert from "node:assert/strict";
import { test } from "node:test";

import { partsOf } from "../../../../controller/server/page/static/row_window.js";

const HEIGHTS = [10, 20, 30, 10, 10];

test("only rows in the window are there, and gaps are as high as the rows that are not", () => {
    assert.deepEqual(partsOf(HEIGHTS, 10, 60, -1), [{ gap: 10 }, { row: 1 }, { row: 2 }, { gap: 20 }]);
    assert.deepEqual(
        partsOf(HEIGHTS, -50, 500, -1),
        HEIGHTS.map((_, row) => ({ row })),
    );
    assert.deepEqual(partsOf(HEIGHTS, 900, 950, -1), [{ gap: 80 }]);
    assert.deepEqual(partsOf([], 0, 100, -1), []);
});

test("the row with the focus stays, wherever the window is", () => {
    assert.deepEqual(partsOf(HEIGHTS, 0, 5, 3), [{ row: 0 }, { gap: 50 }, { row: 3 }, { gap: 10 }]);
});
