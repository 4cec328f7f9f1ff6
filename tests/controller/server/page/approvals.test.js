// Rollouts that are approved together: what each comes to.

import assert from "node:assert/strict";
import { test } from "node:test";

import { outcomesOf, tally } from "../../../../controller/server/page/static/approvals.js";

function published(changes = {}) {
    return {
        state: "Published",
        direction: "Narrow",
        first: false,
        held_by: null,
        reason: "published: the job takes it when it next starts",
        ...changes,
    };
}

const names = (outcomes) => outcomes.map((one) => one.name);

test("narrowings beyond the fleet's limit wait for their turn, the last ones of the list", () => {
    const widens = published({ direction: "Widen" });
    const answers = [published(), published({ first: true }), published(), widens, "gone"];
    const outcomes = outcomesOf(answers, { streams: 4, max_streams: 5 });
    assert.deepEqual(names(outcomes), [
        "published",
        "published",
        "waits for its turn",
        "published",
        "cannot be approved",
    ]);
    assert.match(outcomes[2].text, /^At most 5 of the fleet's streams are narrowed at once/);
    assert.equal(tally(outcomes), "3 published, 1 waits for its turn, 1 cannot be approved");
});

test("of jobs that restart, those behind the first one may have to wait", () => {
    const answers = ["Restart", "OnRestart", "Restart"].map((mode) => published({ mode, first: true }));
    const texts = outcomesOf(answers, { streams: 0, max_streams: 1 }).map((one) => one.text);
    const reason = "The job takes it when it next starts.";
    assert.deepEqual(texts.slice(0, 2), [reason, reason]);
    assert.match(texts[2], /^Only so many jobs restart at once/);
});

test("what another gate holds takes no turn from those behind it", () => {
    const held = published({ state: "Recommended", held_by: "Frozen", reason: "held: nothing is narrowed" });
    const outcomes = outcomesOf([held, published()], { streams: 0, max_streams: 1 });
    assert.deepEqual(names(outcomes), ["held: freeze", "published"]);
    assert.equal(outcomes[0].text, "Nothing is narrowed.");
});

test("what was done is shown as the controller answered it", () => {
    const outcomes = outcomesOf([published(), published({ reason: "published" })], null);
    assert.deepEqual(names(outcomes), ["published", "published"]);
    assert.equal(outcomes[0].text, "The job takes it when it next starts.");
    assert.equal(outcomes[1].text, "");
});
