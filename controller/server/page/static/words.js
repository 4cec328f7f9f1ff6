// The page's words for the controller's names.

import { count, duration, localTimes, target } from "./format.js";

/** @import { StreamStatus } from "api" */
/** @import { Kind } from "./dom.js" */

/** @type {Record<string, [Kind, string]>} */
const STATES = {
    Recommended: ["info", "recommended"],
    AwaitingApproval: ["warning", "awaits approval"],
    Published: ["info", "published"],
    Acknowledged: ["info", "acknowledged"],
    Effective: ["info", "effective"],
    Verified: ["ok", "verified"],
    RolledBack: ["warning", "rolled back"],
    Superseded: ["idle", "superseded"],
    Expired: ["warning", "expired"],
    Discarded: ["idle", "discarded"],
};

/**
 * Return the kind and the name of a rollout's state.
 * @param {string} state
 */
export function rolloutState(state) {
    const [kind, name] = STATES[state] ?? ["info", spaced(state).toLowerCase()];
    return { kind, name };
}

/** @type {Record<string, string>} */
const GATES = {
    Pinned: "held by a pin",
    Paused: "held: paused",
    NotListening: "held: the job does not listen",
    Vetoed: "held: vetoed",
    FailedBefore: "held: it failed before",
    Evidence: "held: not watched long enough",
    Frozen: "held: freeze",
    Cooldown: "held: too soon after the last",
    RateLimit: "held: enough narrowings today",
    FleetShare: "held: other streams are rolling",
    Approval: "waits for approval",
    Outside: "held: outside gate",
    Restarts: "held: others restart first",
};

/**
 * Return why a rollout is held.
 * @param {string} name
 */
export function gate(name) {
    return GATES[name] ?? `held: ${spaced(name).toLowerCase()}`;
}

const WEEK = 7;

/** @type {Record<string, string>} */
const CHOICES = {
    occurrences: "all rows together",
    timeslices: "each window",
    miss_target: "miss the target",
    exceed_latency_cap: "exceed the latency cap",
    exceed_state_cap: "exceed the state cap",
};

/**
 * Return the words for a value that an SLO may take.
 * @param {string} value
 */
export function choice(value) {
    return CHOICES[value] ?? value.replaceAll("_", " ");
}

/** @type {Record<StreamStatus["mode"], string>} What each mode does. */
export const MODES = {
    Off: "The controller only watches; the job keeps its own bound.",
    OnRestart: "The job takes a new bound when it next starts.",
    Restart: "The job is restarted between two batches to take a new bound.",
    Live: "The job is steered while it runs.",
};

/** @type {Record<string, string>} */
const APPROVALS = {
    none: "no rollout waits",
    first: "the first rollout waits",
    narrow: "narrowing waits",
    all: "every rollout waits",
};

/**
 * Return the words for a value of a policy.
 * @param {string} value
 */
export function policyWord(value) {
    return APPROVALS[value] ?? value;
}

/**
 * Return how severe it is to have this much of a budget left.
 * @param {number | null | undefined} ppm
 * @returns {"critical" | "warning" | "ok" | "idle"}
 */
export function budgetKind(ppm) {
    if (ppm === null || ppm === undefined) return "idle";
    if (ppm < 0) return "critical";
    return ppm < 250_000 ? "warning" : "ok";
}

/**
 * Return the words of a name such as RolloutPublished: Rollout published.
 * @param {string} name
 */
export function spaced(name) {
    const words = name
        .replace(/([a-z])([A-Z])/g, "$1 $2")
        .toLowerCase()
        .replace(/\bslo\b/, "SLO");
    return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Return the name of a field that has changed: `max_bound_ms` is max bound.
 * @param {string} field
 */
export function changeName(field) {
    return field.replace(/_(ms|ppm)$/, "").replaceAll("_", " ");
}

/**
 * Return what a field had before or after a change, by the unit in its name; a number without a name is milliseconds.
 * @param {string} field
 * @param {unknown} value
 */
export function changeValue(field, value) {
    if (value === null) return /^((from|to)_)?bound_ms$/.test(field) ? "own" : "none";
    if (typeof value === "number") {
        if (field === "" || field.endsWith("_ms")) return duration(value);
        return field.endsWith("_ppm") ? target(value) : count(value);
    }
    if (field === "state" && typeof value === "string") return rolloutState(value).name;
    if (Array.isArray(value)) {
        return value.map((one) => (field === "freeze_windows" ? freezeText(one) : one)).join("; ") || "none";
    }
    return typeof value === "string" ? choice(value) : JSON.stringify(value);
}

/** @param {{days: string[], from_minute: number, to_minute: number}} freeze */
function freezeText({ days, from_minute: from, to_minute: to }) {
    const [begin, end] = [from, to].map(
        (minute) => `${Math.floor(minute / 60)}:${String(minute % 60).padStart(2, "0")}`,
    );
    return `${days.length === WEEK ? "every day" : days.join(", ")} ${begin} to ${end} UTC`;
}

/**
 * Return why a mean latency is not known.
 * @param {string | null | undefined} reason
 * @returns {string | undefined}
 */
export function latencyUnknown(reason) {
    /** @type {Record<string, string>} */
    const words = { NoWindows: "no window has closed yet", WindowsOpen: "too many windows are still open" };
    return words[reason ?? ""];
}

/**
 * Return between which bounds the one lies that an SLO asks for; null while neither end is known.
 * @param {NonNullable<StreamStatus["provisional_bound"]>} provisional
 */
export function provisionalEnds({ min_bound_ms: least, max_bound_ms: most }) {
    if (most !== null) return `${duration(least ?? 0)} to ${duration(most)}`;
    return least ? `at least ${duration(least)}` : null;
}

/**
 * Return a text of the controller as a sentence.
 * @param {string} text
 */
export function sentence(text) {
    const said = localTimes(text);
    const begun = said.charAt(0).toUpperCase() + said.slice(1);
    return /[.?!)]$/.test(begun) ? begun : `${begun}.`;
}

export const MAX_NAMES = 8;

/**
 * Return names as a list, or none.
 * @param {string[]} names
 * @param {number} all How many there are, of which names may be the first.
 */
export function named(names, all = names.length) {
    if (!all) return "none";
    const more = all - Math.min(names.length, MAX_NAMES);
    return names.slice(0, MAX_NAMES).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/**
 * Return a word with its number: 1 row, 2 rows.
 * @param {number} number
 * @param {string} word
 */
export function plural(number, word, more = `${word}s`) {
    return `${number.toLocaleString("en")} ${number === 1 ? word : more}`;
}
