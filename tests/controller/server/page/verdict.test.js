// The verdict on a stream: one sentence and one action for each state.

import assert from "node:assert/strict";
import { test } from "node:test";

import { boundNowOf, nextBoundOf, verdictOf } from "../../../../controller/server/page/static/verdict.js";

const WELL = {
    summary: "the bound in use, 9 s, is the recommended one: 996 of 1,000 rows need at most 9 s",
    mode: "OnRestart",
    slo: { target_ppm: 990_000, objective: "occurrences", good_windows_ppm: 990_000 },
    budget: { min_ppm: 994_600, max_ppm: 994_600, remaining_ppm: 400_000, window_ms: 86_400_000 },
    completeness: { min_ppm: 994_600, max_ppm: 994_600 },
    evidence: { to_us: 1, horizon_ms: 86_400_000 },
    recommended: { bound_ms: 9_000, steps: [] },
    in_use_bound_ms: 9_000,
    effective_bound_ms: 9_000,
    live: null,
    pin: null,
    rollout: null,
    conditions: [],
    provisional_bound: null,
};
const ROLLOUT = {
    state: "AwaitingApproval",
    held_by: "Approval",
    may: ["approve", "discard"],
    direction: "Widen",
    to_bound_ms: 11_000,
    reason: "",
};
const NOTHING = { now: null, next: null };
const OUTCOMES = {
    now: { bound_ms: 9_000, latency_wall_ms: 14_000 },
    next: { bound_ms: 11_000, latency_wall_ms: 16_000 },
};

function verdict(changes, outcomes = NOTHING) {
    return verdictOf({ ...WELL, ...changes }, outcomes);
}

test("a stream says what it admits, and what holds by the controller's own sentence", () => {
    assert.deepEqual(verdict({}), {
        kind: "ok",
        text: "Admits 99.46\u00a0% over 1 d, target 99\u00a0%. The bound in use, 9 s, is the recommended one: 996 of 1,000 rows need at most 9 s.",
        action: "try",
    });
});

test("a rollout that waits says what it costs, and asks for a review", () => {
    const { text, action } = verdict({ rollout: ROLLOUT }, OUTCOMES);
    assert.match(text, /Widening to 11 s costs 2 s of latency\. It waits for your approval\.$/);
    assert.equal(action, "review");
});

test("narrowing saves latency, and without figures neither is claimed", () => {
    const next = { bound_ms: 4_000, latency_wall_ms: 9_000 };
    const rollout = { ...ROLLOUT, direction: "Narrow", to_bound_ms: 4_000 };
    assert.match(verdict({ rollout }, { ...OUTCOMES, next }).text, /Narrowing to 4 s saves 5 s of latency\./);
    assert.match(verdict({ rollout }).text, /Narrowing to 4 s is recommended\./);
    assert.match(verdict({ rollout }, OUTCOMES).text, /Narrowing to 4 s is recommended\./, "figures of another bound");
});

test("an overdrawn budget is critical whatever comes next", () => {
    const { kind, text } = verdict({ budget: { ...WELL.budget, remaining_ppm: -1 } });
    assert.equal(kind, "critical");
    assert.match(text, /more was lost than the budget allows\./);
});

test("an amber verdict says what makes it amber, and an estimate alone is no cause for alarm", () => {
    const conditions = [{ severity: "warning", title: "Skewed partition", detail: "partition '7' costs 36.3 s" }];
    const skewed = verdict({ conditions });
    assert.equal(skewed.kind, "warning");
    assert.match(skewed.text, /target 99.%\. Skewed partition: partition '7' costs 36\.3 s\.$/);
    assert.equal(verdict({ provisional_bound: { bound_ms: 9_000 } }).kind, "info");
});

test("a published bound waits calmly for the next start of the job", () => {
    const rollout = { state: "Published", mode: "OnRestart", held_by: null, may: ["rollback"], to_bound_ms: 11_000 };
    const { kind, action } = verdict({ rollout });
    assert.deepEqual([kind, action], ["ok", "try"]);
});

test("in Live the headline is what the driver waits for, and offers no narrowing that nobody will make", () => {
    const summary = "it waits for rows that come within 8 s of a window's end; about 0.3 rows of a window are lost";
    const live = {
        summary,
        mode: "Live",
        live: {},
        in_use_bound_ms: 7_200_000,
        recommended: { bound_ms: 9_000, steps: [] },
    };
    const held = { ...ROLLOUT, state: "Recommended", held_by: "Cooldown", direction: "Narrow" };
    for (const changes of [live, { ...live, rollout: held }]) {
        const { text, action } = verdict(changes, OUTCOMES);
        assert.match(text, /It waits for rows that come within 8 s of a window's end/);
        assert.doesNotMatch(text, /arrow|saves/);
        assert.equal(action, "try");
    }
    assert.equal(verdict({ ...live, rollout: ROLLOUT }).action, "review", "only what waits for a person asks for one");
});

test("figures of now are those of the bound in use, in Live of the effective one", () => {
    assert.equal(boundNowOf({ ...WELL, effective_bound_ms: 8_000 }), 9_000);
    assert.equal(boundNowOf({ ...WELL, live: {}, in_use_bound_ms: 7_200_000, effective_bound_ms: 8_000 }), 8_000);
    assert.equal(boundNowOf({ ...WELL, live: {}, effective_bound_ms: -2_000 }), 0);
});

test("each state of a stream has its own action", () => {
    const pin = { to: "Off", scope: "stream", reason: "INC-1" };
    const condition = (type, severity) => [{ type, severity, title: type, detail: "why" }];
    assert.equal(verdict({ slo: null, budget: null }).action, "slo");
    assert.equal(verdict({ pin }).action, "unpin");
    assert.equal(verdict({ pin: { ...pin, scope: "job" } }).action, "try", "a pin on more is not taken away here");
    assert.equal(verdict({ conditions: condition("ConstraintsConflict", "critical") }).action, "slo");
    assert.equal(verdict({ conditions: condition("Paused", "info") }).action, "resume");
    assert.equal(verdict({ mode: "Off", recommended: { bound_ms: 4_000, steps: [] } }).action, "steer");
});

test("a target of windows is about windows", () => {
    const slo = { ...WELL.slo, objective: "timeslices" };
    assert.match(verdict({ slo }).text, /^99\.46\u00a0% of the windows reach 99\u00a0%, required 99\u00a0%\./);
});

test("what is to come is the rollout that waits, else what is recommended", () => {
    assert.equal(nextBoundOf({ ...WELL, rollout: ROLLOUT }), 11_000);
    assert.equal(nextBoundOf(WELL), 9_000);
    assert.equal(nextBoundOf({ ...WELL, recommended: null }), null);
});
