// What a change of the bound does: the figures before and after it, side by side.

import { Away, get, query, Rejected } from "./api.js";
import { el, figures } from "./dom.js";
import { about, bound, bytes, duration, latency, shares } from "./format.js";

/** @import { Preview } from "api" */

/**
 * Return the table before its figures are known, as high as it will be.
 * @param {boolean} [changes] Whether the two bounds differ.
 */
export function beforeAfterToCome(changes = true) {
    return tableOf(null, null, changes);
}

/**
 * Return a table of what two bounds do; a hint where it cannot be read.
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
        return tableOf(before, after, fromMs !== toMs);
    } catch (error) {
        if (!(error instanceof Away || error instanceof Rejected)) throw error;
        return el("p", { class: "error", text: `What it does could not be read: ${error.message}.` });
    }
}

/**
 * @param {Preview | null} before
 * @param {Preview | null} after
 * @param {boolean} changes
 */
function tableOf(before, after, changes) {
    /** @type {[string, (one: Preview) => string][]} */
    const rows = [
        ["Bound", (one) => bound(one.bound_ms)],
        ["Rows admitted", (one) => shares(one.completeness_min_ppm, one.completeness_max_ppm)],
        ["Late rows a day", (one) => about(one.late_a_day)],
        ["Mean latency", latency],
        ["State", (one) => `${about(one.state_rows)} rows${one.state_bytes ? `, ${bytes(one.state_bytes)}` : ""}`],
    ];
    // Without a change nothing closes because of it.
    if (changes) {
        /** @type {(text: (one: Preview) => string) => (one: Preview) => string} */
        const onlyAfter = (text) => (one) => (one === after ? text(one) : "–");
        rows.push(["Windows that close at once", onlyAfter((one) => about(one.windows_closing))]);
        rows.push(["The watermark stands still", onlyAfter((one) => duration(one.stands_still_ms))]);
    }
    /** @type {(one: Preview | null, text: (one: Preview) => string) => string} */
    const cell = (one, text) => (one === null ? "…" : text(one));
    const cells = rows.map(([name, text]) => ({ cells: [name, cell(before, text), cell(after, text)] }));
    return figures([{ text: "" }, { text: "Before", class: "number" }, { text: "After", class: "number" }], cells, {
        class: "before-after-table",
        caption: "What the change does",
    });
}
