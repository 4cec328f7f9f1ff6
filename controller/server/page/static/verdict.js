// How a stream is, in one sentence, and the one thing to do about it: pure functions of its status.

import { bound, duration, shares, target } from "./format.js";
import { sentence } from "./words.js";

/** @import { Preview, RolloutAnswer, StreamStatus } from "api" */
/** @import { Kind } from "./dom.js" */
/** @typedef {"slo" | "review" | "unpin" | "resume" | "steer" | "try"} Action */
/** @typedef {{kind: Kind, text: string, action: Action}} Verdict */
/** @typedef {{text: string, action: Action, kind?: Kind}} Next What comes of it, and what to do */
/** @typedef {{now: Preview | null, next: Preview | null}} Outcomes What the bound of now does, and the next one; null before that is known */

/**
 * Return the verdict on a stream.
 * @param {StreamStatus} status
 * @param {Outcomes} outcomes
 * @returns {Verdict}
 */
export function verdictOf(status, outcomes) {
    const { text, action, kind } = nextOf(status, outcomes);
    return { kind: kind ?? severityOf(status), text: [admits(status), text].filter(Boolean).join(" "), action };
}

/**
 * Return the bound that is to come: that of a rollout that may be approved, or the recommended one.
 * @param {StreamStatus} status
 */
export function nextBoundOf({ rollout, recommended }) {
    return rollout?.may.includes("approve") ? rollout.to_bound_ms : (recommended?.bound_ms ?? null);
}

/**
 * Return the bound whose figures hold now: the one in use, or in Live, where the plan has the ceiling, the effective one.
 * @param {Pick<StreamStatus, "live" | "in_use_bound_ms" | "effective_bound_ms">} status
 */
export function boundNowOf({ live, in_use_bound_ms: inUseMs, effective_bound_ms: effectiveMs }) {
    if (live === null || effectiveMs === null) return inUseMs;
    return Math.max(effectiveMs, 0);
}

/**
 * Return how grave it is, as the fleet counts it.
 * @param {StreamStatus} status
 * @returns {Kind}
 */
function severityOf({ conditions, budget, provisional_bound: provisional }) {
    const worst = conditions[0]?.severity;
    if (worst === "critical" || overdrawn(budget)) return "critical";
    if (worst === "warning") return "warning";
    return provisional === null ? "ok" : "info";
}

/** @param {StreamStatus["budget"]} budget */
function overdrawn(budget) {
    return budget !== null && budget.remaining_ppm !== null && budget.remaining_ppm < 0;
}

/**
 * What is admitted beside what is asked for.
 * @param {StreamStatus} status
 */
function admits({ budget, slo, completeness, evidence }) {
    if (budget === null || slo === null) {
        if (completeness.min_ppm === null) return "";
        return `Admits ${shares(completeness.min_ppm, completeness.max_ppm)} over ${duration(evidence.horizon_ms)}.`;
    }
    if (budget.min_ppm === null) return "Nothing has been judged yet.";
    const good = shares(budget.min_ppm, budget.max_ppm);
    const end = overdrawn(budget) ? ": more was lost than the budget allows." : ".";
    return slo.objective === "timeslices"
        ? `${good} of the windows reach ${target(slo.target_ppm)}, required ${target(slo.good_windows_ppm)}${end}`
        : `Admits ${good} over ${duration(budget.window_ms)}, target ${target(slo.target_ppm)}${end}`;
}

/**
 * @param {StreamStatus} status
 * @param {Outcomes} outcomes
 * @returns {Next}
 */
function nextOf(status, outcomes) {
    const { summary, mode, slo, evidence, pin, conditions, rollout, recommended, in_use_bound_ms: inUse } = status;
    const text = sentence(summary);
    if (slo === null) return { text, action: "slo", kind: "info" };
    if (evidence.to_us === null) return { text, action: "try", kind: "info" };
    if (pin !== null) return { text, action: pin.scope === "stream" ? "unpin" : "try", kind: "pause" };
    const has = (/** @type {string} */ type) => conditions.some((one) => one.type === type);
    if (has("ConstraintsConflict")) return { text, action: "slo" };
    if (rollout && asksApproval(status)) return { text: candidate(status, rollout, outcomes), action: "review" };
    if (has("Paused")) return { text, action: "resume", kind: "pause" };
    const changes = recommended !== null && recommended.bound_ms !== null && recommended.bound_ms !== inUse;
    if (mode === "Off" && changes) return { text, action: "steer" };
    const [worst] = conditions;
    if (worst?.severity !== "warning") return { text, action: "try" };
    // What makes it amber is what there is to say.
    return { text: sentence(`${worst.title}: ${worst.detail}`), action: "try" };
}

/**
 * Whether a person may approve a rollout now. In Live the driver decides each move: there only what waits for it asks.
 * @param {StreamStatus} status
 */
function asksApproval({ mode, rollout }) {
    if (!rollout?.may.includes("approve")) return false;
    return mode !== "Live" || rollout.state === "AwaitingApproval";
}

/**
 * Return what a rollout that a person may approve would do, and what it waits for.
 * @param {StreamStatus} status
 * @param {RolloutAnswer} rollout
 * @param {Outcomes} outcomes
 */
function candidate({ mode, summary }, rollout, outcomes) {
    if (mode === "Live") return sentence(summary);
    const waits = rollout.state === "AwaitingApproval" || rollout.held_by === "Approval";
    return `${changeText(rollout, outcomes)} ${waits ? "It waits for your approval." : sentence(rollout.reason)}`;
}

/**
 * What going to a bound costs or saves.
 * @param {RolloutAnswer} rollout
 * @param {Outcomes} outcomes
 */
function changeText({ direction, to_bound_ms: toMs }, { now, next }) {
    const change = `${direction === "Widen" ? "Widening" : "Narrowing"} to ${bound(toMs)}`;
    const beforeMs = now?.latency_wall_ms ?? null;
    const afterMs = next?.bound_ms === toMs ? next.latency_wall_ms : null;
    if (beforeMs === null || afterMs === null) return `${change} is recommended.`;
    const more = afterMs - beforeMs;
    return `${change} ${more > 0 ? `costs ${duration(more)}` : `saves ${duration(-more)}`} of latency.`;
}
