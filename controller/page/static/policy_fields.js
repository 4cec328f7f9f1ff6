// The fields of a policy that the page changes. Choices come from the controller's OpenAPI document.

import { exactDuration, parseDuration } from "./format.js";

/** @import { PolicyAnswer, StreamStatus } from "api" */
/** @typedef {"mode" | "min_bound_ms" | "max_bound_ms" | "approval"} PolicyField */
/** @typedef {{components: {schemas: Record<string, any>}}} OpenApi */

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

/** @type {Record<PolicyField, {label: string, hint: string}>} */
export const LABELS = {
    mode: { label: "Mode", hint: "" },
    min_bound_ms: { label: "Minimum bound", hint: "0 s for none." },
    max_bound_ms: { label: "Maximum bound", hint: "Empty for none." },
    approval: { label: "Which rollouts wait for a person", hint: "" },
};

/**
 * Return the words for a value of a policy.
 * @param {string} value
 */
export function policyWord(value) {
    return APPROVALS[value] ?? value;
}

/**
 * Return the values that a field may take, with their words; null for a duration.
 * @param {OpenApi} document
 * @param {PolicyField} field
 * @returns {[string, string][] | null}
 */
export function optionsOf(document, field) {
    const values = document.components.schemas.Policy.properties[field].enum;
    if (!values) return null;
    return values.map((/** @type {string} */ value) => [
        value,
        value in MODES ? `${value}: ${lowered(MODES[/** @type {keyof MODES} */ (value)])}` : policyWord(value),
    ]);
}

/**
 * Return what a field holds as text.
 * @param {PolicyAnswer[PolicyField]} value
 */
export function policyText(value) {
    return value === null ? "" : typeof value === "number" ? exactDuration(value) : value;
}

/**
 * Return the value that is written in a field of durations; undefined when it is none.
 * @param {PolicyField} field
 * @param {string} text
 */
export function parsedBound(field, text) {
    if (text === "") return field === "max_bound_ms" ? null : undefined;
    return parseDuration(text) ?? undefined;
}

/**
 * Return why limits do not fit together; null when they do.
 * @param {number} min
 * @param {number | null} max
 */
export function limitsProblem(min, max) {
    return max !== null && min > max ? "the maximum must not be below the minimum" : null;
}

/** @param {string} text */
function lowered(text) {
    return text.charAt(0).toLowerCase() + text.slice(1).replace(/\.$/, "");
}
