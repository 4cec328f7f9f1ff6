// Trying what is written in the SLO's form beside the SLO in force: it concerns nobody, so it takes no dry run.

import { query, send } from "./api.js";
import { button, el, put } from "./dom.js";
import { target } from "./format.js";

/** @import { ShadowAnswer } from "api" */
/** @import { Dialog } from "./dialog.js" */
/** @import { DryRun } from "./dry_run.js" */
/** @import { Values } from "./spec_fields.js" */
/** @import { Shell } from "./stream.js" */

const TRIED = ["target_ppm", "latency_cap_ms", "on_conflict", "state_cap_rows"];

/**
 * @typedef {object} Trial
 * @property {string} path Path of the stream.
 * @property {Values} inForce The SLO in force.
 * @property {() => Values | null} read What is written; null after showing what cannot be read.
 * @property {DryRun<any, any>} run Has the reason, and the place for what is wrong.
 * @property {Dialog} dialog
 * @property {Shell} shell
 */

/**
 * Return the button that tries what is written beside the SLO in force.
 * @param {Trial} trial
 */
export function tryButton(trial) {
    return el(
        "div",
        { class: "field" },
        el(
            "p",
            { class: "row" },
            button("Try it beside the one in force", () => tryBeside(trial), { class: "button small" }),
        ),
        el("span", {
            class: "hint",
            text: "A shadow: Tidemark counts what this would admit and cost, and nothing changes for the job.",
        }),
    );
}

/** @param {Trial} trial */
async function tryBeside({ path, inForce, read, run, dialog, shell }) {
    const values = read();
    if (values === null) return;
    const others = Object.keys(values).filter((name) => !TRIED.includes(name) && values[name] !== inForce[name]);
    if (others.length) {
        const text = "Only the target, the caps and what to do on a conflict can be tried; leave the rest as it is.";
        put(run.consequences, el("p", { class: "error", text }));
        return;
    }
    const reason = run.reason.read();
    if (reason === null) return;
    const tried = Object.fromEntries(TRIED.map((name) => [name, values[name]]));
    /** @type {() => Promise<ShadowAnswer>} */
    const write = () => send("PUT", query(`${path}/shadow`, { reason }), tried);
    const answer = await dialog.attempt(write);
    if (answer === undefined) return;
    dialog.close();
    shell.done(`${target(answer.target_ppm)} is tried beside the SLO in force, as its shadow.`);
    shell.refresh();
}
