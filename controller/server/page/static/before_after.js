// What a change of the bound does: the figures before and after it, side by side.

import { Away, get, query, Rejected } from "./api.js";
import { el, figures } from "./dom.js";
import { about, bound, bytes, duration, latency, shares } from "./format.js";

/** @import { Preview } from "api" */
/** @import { Child } from "./dom.js" */

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
    /** @type {(text: (one: Preview) => string) => (one: Preview) => string} */
    const onlyAfter = (text) => (one) => (one === after ? text(one) : "–");
    /** @type {[string, string, (one: Preview) => string][]} Name, a text as long as it usually is, and the text. */
    const rows = [
        ["Bound", "2 min 30 s", (one) => bound(one.bound_ms)],
        ["Rows admitted", "99.50 – 99.80 %", (one) => shares(one.completeness_min_ppm, one.completeness_max_ppm)],
        ["Late rows a day", "1,000", (one) => about(one.late_a_day)],
        ["Mean latency", "2 min 30 s", latency],
        ["State", "1,000 rows, 200 KiB", stateText],
    ];
    // Without a change nothing closes because of it.
    if (changes) {
        rows.push(["Windows that close at once", "10", onlyAfter((one) => about(one.windows_closing))]);
        rows.push(["The watermark stands still", "60 s", onlyAfter((one) => duration(one.stands_still_ms))]);
    }
    /** @type {(one: Preview | null, usual: string, text: (one: Preview) => string) => Child} */
    const cell = (one, usual, text) =>
        one === null ? el("span", { class: "to-come", "aria-hidden": "true", text: usual }) : text(one);
    const cells = rows.map(([name, ...texts]) => ({ cells: [name, cell(before, ...texts), cell(after, ...texts)] }));
    return figures([{ text: "" }, { text: "Before", class: "number" }, { text: "After", class: "number" }], cells, {
        class: "before-after-table",
        caption: "What the change does",
    });
}

/** @param {Preview} one */
function stateText({ state_rows: rows, state_bytes: size }) {
    return `${about(rows)} rows${size ? `, ${bytes(size)}` : ""}`;
}
