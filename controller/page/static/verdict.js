// How a stream is, in one sentence, and the one thing to do about it: pure functions of its status.

import { bound, duration, shares, target } from "./format.js";
import { rolloutState, sentence } from "./words.js";

/** @import { Preview, RolloutAnswer, StreamStatus } from "api" */
/** @import { Kind } from "./dom.js" */
/** @typedef {"slo" | "review" | "unpin" | "resume" | "steer" | "try"} Action */
/** @typedef {{kind: Kind, text: string, action: Action}} Verdict */
/** @typedef {{text: string, action: Action, kind?: Kind}} Next What comes of it, and what to do */
/** @typedef {{now: Preview | null, next: Preview | null}} Outcomes What the bound in use does, and the next one; null before that is known */

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
 * Return how grave it is, as the fleet counts it.
 * @param {StreamStatus} status
 * @returns {Kind}
 */
function severityOf({ conditions, budget }) {
    const worst = conditions[0]?.severity;
    if (worst === "critical" || overdrawn(budget)) return "critical";
    return worst === "warning" ? "warning" : "ok";
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
    const { slo, evidence, pin, conditions, rollout } = status;
    if (evidence.to_us === null) {
        const text = "No report has come yet.";
        return slo ? { text, action: "try", kind: "info" } : { text, action: "slo", kind: "info" };
    }
    if (slo === null) {
        return { text: "No SLO is set, so nothing is recommended.", action: "slo", kind: "info" };
    }
    if (pin !== null) {
        const held = `A pin holds it to ${pin.to === "Off" ? "its own bound" : "its ceiling"}: ${pin.reason}.`;
        return { text: held, action: pin.scope === "stream" ? "unpin" : "try", kind: "pause" };
    }
    const conflict = conditions.find((one) => one.type === "ConstraintsConflict");
    if (conflict) return { text: "No bound meets it within the caps.", action: "slo" };
    if (rollout && rollout.may.includes("approve")) return candidate(status, rollout, outcomes);
    const paused = conditions.find((one) => one.type === "Paused");
    if (paused) return { text: `Paused: ${sentence(paused.detail)}`, action: "resume", kind: "pause" };
    const worst = conditions[0];
    if (worst?.severity === "critical" && worst.type !== "TargetMissed") {
        return { text: `${worst.title}: ${sentence(worst.detail)}`, action: "try" };
    }
    return rollout && underWay(rollout) ? rolling(rollout) : steady(status, outcomes);
}

/** @param {RolloutAnswer} rollout */
function underWay({ state }) {
    return state === "Published" || state === "Acknowledged" || state === "Effective";
}

/**
 * A rollout that a person may approve.
 * @param {StreamStatus} status
 * @param {RolloutAnswer} rollout
 * @param {Outcomes} outcomes
 * @returns {Next}
 */
function candidate(status, rollout, outcomes) {
    const waits = rollout.state === "AwaitingApproval" || rollout.held_by === "Approval";
    const change = changeText(status, rollout.to_bound_ms, outcomes);
    return {
        text: `${change}${waits ? " It waits for your approval." : ` ${sentence(rollout.reason)}`}`,
        action: "review",
    };
}

/**
 * What going to a bound costs or saves.
 * @param {StreamStatus} status
 * @param {number | null} toMs
 * @param {Outcomes} outcomes
 */
function changeText({ in_use_bound_ms: fromMs }, toMs, { now, next }) {
    if (toMs === null || fromMs === null || toMs === fromMs) return `A change to ${bound(toMs)} is recommended.`;
    const verb = toMs > fromMs ? "Widening" : "Narrowing";
    const beforeMs = now?.latency_wall_ms ?? null;
    const afterMs = next?.bound_ms === toMs ? next.latency_wall_ms : null;
    if (beforeMs === null || afterMs === null) return `${verb} to ${duration(toMs)} is recommended.`;
    const change = afterMs - beforeMs;
    const cost = change > 0 ? `costs ${duration(change)}` : `saves ${duration(-change)}`;
    return `${verb} to ${duration(toMs)} ${cost} of latency.`;
}

/**
 * @param {RolloutAnswer} rollout
 * @returns {Next}
 */
function rolling(rollout) {
    const to = bound(rollout.to_bound_ms);
    if (rollout.state !== "Published") {
        return {
            text: `The job runs with ${to}; it is ${rolloutState(rollout.state).name} and is being verified.`,
            action: "try",
        };
    }
    const waits = rollout.mode === "OnRestart" ? "it waits for the next start of the job" : "the job is taking it";
    return { text: `${to} is published; ${waits}.`, action: "try" };
}

/**
 * @param {StreamStatus} status
 * @param {Outcomes} outcomes
 * @returns {Next}
 */
function steady(status, outcomes) {
    const { recommended, in_use_bound_ms: inUse, mode } = status;
    if (recommended === null) return { text: "Nothing is recommended yet.", action: "try" };
    if (recommended.bound_ms === null) {
        const why = recommended.steps.at(-1)?.reason;
        return { text: `The bound in use stays${why ? `: ${sentence(why)}` : "."}`, action: "try" };
    }
    if (recommended.bound_ms === inUse) {
        return { text: `The bound in use, ${duration(inUse)}, is the recommended one.`, action: "try" };
    }
    const change = changeText(status, recommended.bound_ms, outcomes);
    return mode === "Off"
        ? { text: `${change} In mode Off nothing is changed.`, action: "steer" }
        : { text: change, action: "try" };
}
