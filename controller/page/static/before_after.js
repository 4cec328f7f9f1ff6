// What a change of the bound does: the figures before and after it, side by side.

import { Away, get, query, Rejected } from "./api.js";
import { el, figures } from "./dom.js";
import { about, bound, bytes, duration, latency, shares } from "./format.js";
import { sentence } from "./words.js";

/** @import { Preview } from "api" */

/**
 * Return a table of what two bounds do, and the transition between them; a hint where it cannot be read.
 * @param {string} path Path of the stream.
 * @param {number | null} fromMs The bound in use.
 * @param {number | null} toMs The bound after the change.
 */
export async function beforeAfter(path, fromMs, toMs) {
    if (fromMs === null || toMs === null) {
        return el("p", {
            class: "hint",
            text: "What the bound becomes is the job's own matter, so nothing is compared.",
        });
    }
    try {
        /** @type {(ms: number) => Promise<Preview>} */
        const preview = (ms) => get(query(`${path}/preview`, { bound_ms: ms }));
        const [before, after] = await Promise.all([preview(fromMs), preview(toMs)]);
        return el(
            "div",
            { class: "before-after" },
            tableOf(before, after),
            after.transition && fromMs !== toMs && el("p", { class: "hint", text: sentence(after.transition) }),
        );
    } catch (error) {
        if (!(error instanceof Away || error instanceof Rejected)) throw error;
        return el("p", { class: "error", text: `What it does could not be read: ${error.message}.` });
    }
}

/**
 * @param {Preview} before
 * @param {Preview} after
 */
function tableOf(before, after) {
    /** @type {[string, (one: Preview) => string][]} */
    const rows = [
        ["Bound", (one) => bound(one.bound_ms)],
        ["Rows admitted", (one) => shares(one.completeness_min_ppm, one.completeness_max_ppm)],
        ["Late rows a day", (one) => about(one.late_a_day)],
        ["Mean latency", latency],
        ["State", (one) => `${about(one.state_rows)} rows${one.state_bytes ? `, ${bytes(one.state_bytes)}` : ""}`],
    ];
    const cells = rows.map(([name, text]) => ({ cells: [name, text(before), text(after)] }));
    // Without a change nothing closes because of it.
    if (before.bound_ms !== after.bound_ms) {
        cells.push({ cells: ["Windows that close at once", "–", about(after.windows_closing)] });
        cells.push({ cells: ["The watermark stands still", "–", duration(after.stands_still_ms)] });
    }
    return figures([{ text: "" }, { text: "Before", class: "number" }, { text: "After", class: "number" }], cells, {
        class: "before-after-table",
        caption: "What the change does",
    });
}
