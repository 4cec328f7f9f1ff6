// The fleet: its counts, its order and its groups.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
    awaitsApproval,
    countsOf,
    folded,
    nextOf,
    nextSort,
    ordered,
    provisionalOf,
    sortOf,
    sortText,
} from "../../../../controller/server/page/static/fleet_list.js";

function stream(name, changes = {}) {
    return {
        job: "job",
        stream: name,
        worst: null,
        budget_remaining_ppm: 500_000,
        rollout: null,
        alerts: [],
        last_batch_us: null,
        ...changes,
    };
}

const WARNING = { worst: { severity: "warning" } };
const CRITICAL = { worst: { severity: "critical" } };

test("each stream counts once: an overdrawn budget is critical, information is ok", () => {
    const streams = [
        stream("a", { budget_remaining_ppm: -1, ...WARNING }),
        stream("b", CRITICAL),
        stream("c", WARNING),
        stream("d", { worst: { severity: "info" } }),
        stream("e", { budget_remaining_ppm: null }),
    ];
    assert.deepEqual(countsOf(streams), { critical: 2, warning: 1, ok: 2 });
});

test("what is not known comes last in either direction", () => {
    const streams = [null, 3, -1].map((budget, n) => stream(`${n}`, { budget_remaining_ppm: budget }));
    const names = (sort) => ordered(streams, sort).map((one) => one.stream);
    assert.deepEqual(names({ column: "budget", descending: false }), ["2", "1", "0"]);
    assert.deepEqual(names({ column: "budget", descending: true }), ["1", "2", "0"]);
});

test("silent streams come first, then critical ones, then the controller's order", () => {
    const streams = [stream("a"), stream("b"), stream("c", CRITICAL), stream("d", { alerts: ["NoRecentReport"] })];
    assert.deepEqual(
        ordered(streams, null).map((one) => one.stream),
        ["d", "c", "a", "b"],
    );
});

test("a job of several streams is one line as the worst of them, and stands where its first stream does", () => {
    const streams = [
        stream("x", { job: "b", last_batch_us: 30 }),
        stream("y", { job: "a" }),
        stream("w", { job: "b", last_batch_us: 20, budget_remaining_ppm: 1, ...WARNING }),
        stream("v", { job: "b", last_batch_us: null, budget_remaining_ppm: null }),
    ];
    const [job, single, ...more] = folded(streams, () => false);
    assert.deepEqual(job.job, {
        job: "b",
        open: false,
        count: 3,
        level: "warning",
        worst: WARNING.worst,
        leastBudgetPpm: 1,
        oldestBatchUs: 20,
    });
    assert.deepEqual([single.stream.stream, single.inJob, more], ["y", false, []]);
    assert.deepEqual(
        folded(streams, (name) => name === "b").map((line) => line.stream?.stream ?? line.job.open),
        [true, "x", "w", "v", "y"],
    );
});

test("a heading orders up, then down, then not, and the address keeps it", () => {
    const up = nextSort(null, "now");
    const down = nextSort(up, "now");
    assert.deepEqual([sortText(up), sortText(down), nextSort(down, "now")], ["now", "-now", null]);
    assert.deepEqual(sortOf("-now"), down);
    assert.deepEqual(nextSort(down, "mode"), { column: "mode", descending: false });
    for (const none of ["", undefined, "nothing", "toString"]) assert.equal(sortOf(none), null);
});

test("a rollout waits for a person by its state or by its gate", () => {
    const rollout = (state, heldBy) => stream("a", { rollout: { state, held_by: heldBy } });
    assert.equal(awaitsApproval(rollout("AwaitingApproval", "Approval")), true);
    assert.equal(awaitsApproval(rollout("Recommended", "Approval")), true);
    assert.equal(awaitsApproval(rollout("Recommended", "Cooldown")), false);
    assert.equal(awaitsApproval(stream("a")), false);
});

test("what is to come is the rollout that waits, else what is recommended, else the estimate", () => {
    const estimate = { bound_ms: 39_000 };
    const only = stream("a", { recommended_bound_ms: null, provisional_bound: estimate });
    const waits = { rollout: { state: "AwaitingApproval", held_by: "Approval", to_bound_ms: 60_000 } };
    assert.deepEqual([nextOf(only), provisionalOf(only)], [39_000, estimate]);
    assert.equal(nextOf({ ...only, recommended_bound_ms: 64_000 }), 64_000);
    assert.deepEqual([nextOf({ ...only, ...waits }), provisionalOf({ ...only, ...waits })], [60_000, null]);
});
