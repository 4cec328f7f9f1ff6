// The form that sets an SLO.

import { beforeAfter } from "./before_after.js";
import { el } from "./dom.js";
import { duration, moment, target } from "./format.js";
import { openSpecForm } from "./spec_form.js";

/** @import { SloSet, StreamStatus } from "api" */
/** @import { Spec } from "./spec_form.js" */
/** @import { Shell } from "./stream.js" */

/**
 * Open the form.
 * @param {string} path Path of the stream.
 * @param {StreamStatus} status As far as the page knows.
 * @param {Shell} shell
 */
export async function openSloForm(path, status, shell) {
    /** @type {Spec<SloSet>} */
    const spec = {
        title: "Set the SLO",
        path: `${path}/slo`,
        kind: "Slo",
        what: "the SLO",
        verb: "Set the SLO",
        usual: ["target_ppm", "latency_cap_ms", "on_conflict"],
        rare: "Objective, caps, window, confidence",
        absent: status.slo === null,
        intro: (value) =>
            el(
                "p",
                { class: "hint" },
                value
                    ? `Generation ${value.generation}, set ${moment(value.updated_us)}.`
                    : "None is set yet. Without one, nothing is recommended.",
            ),
        consequences: (answer) => consequencesOf(path, status.in_use_bound_ms, answer),
        done: (answer) => `The SLO is set: ${target(answer.target_ppm)}, generation ${answer.generation}.`,
    };
    await openSpecForm(spec, shell);
}

/**
 * Return what follows from an SLO, with the bounds and what they do before and after.
 * @param {string} path
 * @param {number | null} inUseMs The bound in use.
 * @param {SloSet} answer
 */
export async function consequencesOf(path, inUseMs, { recommended, published }) {
    const toMs = recommended?.bound_ms ?? null;
    return [
        el("p", { text: recommendedText(recommended) }),
        toMs !== null && (await beforeAfter(path, inUseMs, toMs)),
        el("p", { class: "hint", text: publishedText(published) }),
    ];
}

/** @param {SloSet["recommended"]} recommended */
function recommendedText(recommended) {
    if (recommended === null) return "Nothing is recommended until there are reports.";
    if (recommended.bound_ms !== null) return `The recommended bound is ${duration(recommended.bound_ms)}.`;
    return `No bound is recommended: ${recommended.steps.at(-1)?.reason ?? "there is not enough evidence"}.`;
}

/** @param {SloSet["published"]} published */
function publishedText({ envelope, bound_ms: boundMs }) {
    if (envelope !== null) return "The job is steered live, as this SLO allows.";
    if (boundMs === null) return "The job keeps its own bound for now.";
    return `The published bound stays at ${duration(boundMs)} for now; a different one is rolled out as the policy allows.`;
}
