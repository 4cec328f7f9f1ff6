// The way of a bound: each number once, and how far the newest rollout is.

import assert from "node:assert/strict";
import { test } from "node:test";

import { pathOf, sinceProposed } from "../../../../controller/server/page/static/bound_path.js";

const STATUS = {
    recommended: { bound_ms: 11_000 },
    published: { bound_ms: 11_000 },
    applied: { bound_ms: 9_000 },
    in_use_bound_ms: 9_000,
    effective_bound_ms: 9_000,
};

test("a number that is the one before it is not written again", () => {
    const texts = pathOf(STATUS, undefined).map((step) => step.text);
    assert.deepEqual(texts, ["11 s", "", "9 s", "", ""]);
});

test("what is unknown is a dash, and nothing published is the job's own", () => {
    const unknown = {
        ...STATUS,
        recommended: null,
        published: { bound_ms: null },
        applied: null,
        in_use_bound_ms: null,
    };
    assert.deepEqual(
        pathOf({ ...unknown, effective_bound_ms: null }, undefined).map((step) => step.text),
        ["–", "its own", "–", "", ""],
    );
});

test("a rollout on its way marks the steps behind it and the one where it is", () => {
    const places = (state) => pathOf(STATUS, { state }).map((step) => step.place);
    assert.deepEqual(places("AwaitingApproval"), ["here", "ahead", "ahead", "ahead", "ahead"]);
    assert.deepEqual(places("Acknowledged"), ["past", "past", "here", "ahead", "ahead"]);
    assert.deepEqual(places("Verified"), ["past", "past", "past", "past", "here"]);
    assert.deepEqual(new Set(places("RolledBack")), new Set(["none"]));
});

test("a bound that waits for approval says when another one is recommended by now", () => {
    const waiting = { state: "AwaitingApproval", to_bound_ms: 20_000 };
    assert.equal(sinceProposed(STATUS, waiting), "By now 11 s is recommended.");
    assert.equal(sinceProposed({ recommended: { bound_ms: null } }, waiting), "By now no bound is recommended.");
    assert.equal(sinceProposed(STATUS, { ...waiting, to_bound_ms: 11_000 }), "");
    assert.equal(sinceProposed(STATUS, { ...waiting, state: "Verified" }), "");
});
