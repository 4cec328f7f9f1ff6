// The page's words for the controller's names.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as words from "../../../../controller/server/page/static/words.js";

test("a name that a newer controller has is written in plain words", () => {
    assert.deepEqual(words.rolloutState("TakenBack"), { kind: "info", name: "taken back" });
    assert.equal(words.gate("QuietHours"), "held: quiet hours");
    assert.equal(words.choice("exceed_memory_cap"), "exceed memory cap");
    assert.equal(words.spaced("RolloutPublished"), "Rollout published");
});

test("a budget is critical once it is overdrawn, and a warning in its last quarter", () => {
    assert.deepEqual([null, -1, 0, 249_999, 250_000, 1_000_000].map(words.budgetKind), [
        "idle",
        "critical",
        "warning",
        "warning",
        "ok",
        "ok",
    ]);
});

test("a sentence has a capital and a full stop", () => {
    assert.deepEqual(["it holds", "Does it?", "yes (2 s)", "done."].map(words.sentence), [
        "It holds.",
        "Does it?",
        "Yes (2 s)",
        "Done.",
    ]);
});

test("a word agrees with its number", () => {
    assert.deepEqual(
        [words.plural(1, "row"), words.plural(2_000, "row"), words.plural(0, "batch", "batches")],
        ["1 row", "2,000 rows", "0 batches"],
    );
});

test("a change is written with the name and the unit of its field", () => {
    assert.equal(words.changeName("max_bound_ms"), "max bound");
    assert.equal(words.changeValue("max_bound_ms", null), "none");
    assert.equal(words.changeValue("from_bound_ms", null), "own");
    assert.equal(words.changeValue("", 27_000), "27 s");
    assert.equal(words.changeValue("target_ppm", 995_000), "99.5\u00a0%");
    assert.equal(words.changeValue("evidence_windows", 100), "100");
    assert.equal(words.changeValue("state", "AwaitingApproval"), "awaits approval");
    assert.equal(words.changeValue("gates", []), "none");
    const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const freezes = [
        { days, from_minute: 0, to_minute: 1_440 },
        { days: ["Sat", "Sun"], from_minute: 485, to_minute: 1_020 },
    ];
    const said = "every day 0:00 to 24:00 UTC; Sat, Sun 8:05 to 17:00 UTC";
    assert.equal(words.changeValue("freeze_windows", freezes), said);
    assert.equal(words.spaced("SloSet"), "SLO set");
});

test("of an estimate the ends are said that are known", () => {
    const ends = (least, most) => words.provisionalEnds({ min_bound_ms: least, max_bound_ms: most });
    assert.deepEqual(
        [ends(35_000, 64_000), ends(null, 64_000), ends(35_000, null), ends(0, null), ends(null, null)],
        ["35 s to 64 s", "0 s to 64 s", "at least 35 s", null, null],
    );
});
