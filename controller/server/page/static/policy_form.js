// The form that changes a part of the policy.

import { get } from "./api.js";
import { beforeAfter } from "./before_after.js";
import { el } from "./dom.js";
import { duration } from "./format.js";
import { gateControl } from "./gate_field.js";
import { limitsProblem } from "./spec_fields.js";
import { openSpecForm } from "./spec_form.js";

/** @import { GateList, PolicySet } from "api" */
/** @import { Spec } from "./spec_form.js" */
/** @import { Shell } from "./stream.js" */
/** @typedef {"mode" | "limits" | "approval" | "gates" | "apply"} PolicyPart */

/** @type {Record<PolicyPart, {title: string, fields: string[]}>} */
const PARTS = {
    mode: { title: "Change the mode", fields: ["mode"] },
    limits: { title: "Change the limits", fields: ["min_bound_ms", "max_bound_ms"] },
    approval: { title: "Change which rollouts wait for approval", fields: ["approval"] },
    gates: { title: "Change the outside gates", fields: ["gates"] },
    apply: { title: "Apply a bound", fields: ["min_bound_ms", "max_bound_ms", "mode"] },
};

/**
 * Open the form.
 * @param {string} path Path of the stream.
 * @param {PolicyPart} part
 * @param {number | null} inUseMs The bound in use.
 * @param {Shell} shell
 * @param {number} [boundMs] For `apply`: the bound to hold the stream at.
 */
export async function openPolicyForm(path, part, inUseMs, shell, boundMs) {
    /** @type {Spec<PolicySet>} */
    const spec = {
        title: boundMs === undefined ? PARTS[part].title : `Apply a bound of ${duration(boundMs)}`,
        path: `${path}/policy`,
        kind: "Policy",
        what: "the policy",
        verb: "Set it",
        usual: PARTS[part].fields,
        change: (values) =>
            boundMs === undefined ? values : { ...values, min_bound_ms: boundMs, max_bound_ms: boundMs },
        intro: (policy) => boundMs !== undefined && appliedText(policy?.mode === "Off"),
        controls: {
            gates: async (named) => {
                /** @type {GateList} */
                const offered = await get("v1/gates");
                return gateControl(named, offered.gates);
            },
        },
        check: ({ min_bound_ms: min, max_bound_ms: max }) => {
            const problem = limitsProblem(Number(min), /** @type {number | null} */ (max));
            return problem === null ? null : ["max_bound_ms", problem];
        },
        consequences: async (answer) => [
            el("p", { text: consequence(answer) }),
            await beforeAfter(path, inUseMs, answer.recommended?.bound_ms ?? inUseMs),
        ],
        done: ({ generation }) => `The policy is set, generation ${generation}.`,
    };
    await openSpecForm(spec, shell);
}

/** @param {boolean} off Whether the mode is Off. */
function appliedText(off) {
    return [
        el("p", {
            text: "The minimum and the maximum bound are set to it: the stream is held there, and the SLO no longer moves it, until the limits are taken off.",
        }),
        off &&
            el("p", {
                class: "hint",
                text: "In mode Off the job keeps its own bound: choose how it takes this one.",
            }),
    ];
}

/** @param {PolicySet} answer */
function consequence({ mode, recommended, published, approval, held }) {
    if (mode === "Off") return "The job keeps its own bound; the controller only watches.";
    if (published.envelope !== null) return "The job is steered live, within the limits published to it.";
    const recommendedMs = recommended?.bound_ms ?? null;
    if (recommendedMs === null) return "Nothing is recommended for now, so the bound stays as it is.";
    if (recommendedMs === published.bound_ms) return `${duration(recommendedMs)} is published.`;
    const gates =
        approval === "none" ? "as the policy allows" : "as the policy allows, after an approval where it asks for one";
    const waits = held === null ? "" : ` Not yet: ${held}.`;
    return `${duration(recommendedMs)} is recommended then; it is rolled out ${gates}.${waits}`;
}
