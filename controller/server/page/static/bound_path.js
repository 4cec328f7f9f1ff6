// The way of a bound to the job, from the recommendation to its proof: pure functions of the status.

import { bound } from "./format.js";

/** @import { RolloutAnswer, StreamStatus } from "api" */
/**
 * @typedef {object} PathStep
 * @property {string} name
 * @property {string} title
 * @property {string} text The bound there; empty where it is the one of the step before.
 * @property {"past" | "here" | "ahead" | "none"} place Of the newest rollout; none without one on its way.
 */

/** @type {Partial<Record<RolloutAnswer["state"], number>>} The step that a rollout in a state has reached. */
const REACHED = { Recommended: 0, AwaitingApproval: 0, Published: 1, Acknowledged: 2, Effective: 3, Verified: 4 };

/**
 * Return the steps of the bound's way.
 * @param {StreamStatus} status
 * @param {RolloutAnswer | undefined} rollout The newest one.
 * @returns {PathStep[]}
 */
export function pathOf(
    { recommended, published, applied, in_use_bound_ms: inUse, effective_bound_ms: effective },
    rollout,
) {
    const reached = rollout && REACHED[rollout.state];
    const own = published.bound_ms === null;
    /** @type {[string, string, string][]} */
    const steps = [
        ["recommended", "the bound that the controller recommends", boundText(recommended?.bound_ms)],
        ["published", "the bound that the job is to take", own ? "its own" : bound(published.bound_ms)],
        ["applied", "the bound that the job runs with", boundText(applied?.bound_ms ?? inUse)],
        ["effective", "how far the watermark really trails", boundText(effective)],
        ["verified", "the ledger has proved it", ""],
    ];
    return steps.map(([name, title, text], n) => ({
        name,
        title,
        text: n > 0 && text === steps[n - 1][2] ? "" : text,
        place: reached === undefined ? "none" : n < reached ? "past" : n === reached ? "here" : "ahead",
    }));
}

/**
 * Return what to know before a bound is approved: what has been recommended since it was proposed.
 * @param {Pick<StreamStatus, "recommended">} status
 * @param {Pick<RolloutAnswer, "state" | "to_bound_ms">} rollout
 * @returns {string} Empty when the bound that waits is still the one that is recommended.
 */
export function sinceProposed({ recommended }, { state, to_bound_ms: proposed }) {
    if (state !== "AwaitingApproval" || !recommended || recommended.bound_ms === proposed) return "";
    return recommended.bound_ms === null
        ? "By now no bound is recommended."
        : `By now ${bound(recommended.bound_ms)} is recommended.`;
}

/** @param {number | null | undefined} ms */
function boundText(ms) {
    return ms === null || ms === undefined ? "–" : bound(ms);
}
