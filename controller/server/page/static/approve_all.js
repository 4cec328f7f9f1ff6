// All rollouts that wait for approval at once: what each approval would do, then, with one reason, what each did.

import { allPages, get, query, Rejected, send, streamPath } from "./api.js";
import { outcomesOf, tally } from "./approvals.js";
import { Dialog, reasonField } from "./dialog.js";
import { badge, button, el, figures, put, say, submitButton } from "./dom.js";
import { about, bound, latency } from "./format.js";
import { plural } from "./words.js";

/** @import { FleetPage, Preview, RolloutAnswer, RolloutPage } from "api" */
/** @import { Answer, Outcome } from "./approvals.js" */
/** @import { PageShell } from "./stream.js" */
/** @typedef {{rollout: RolloutAnswer, path: string, latency: Element, late: Element, then: Element, answer: Answer}} Row */

const MAX_REASON = 1_000;
const UNAUTHENTICATED = 401;
const TOO_MANY = 429;
const SERVER_ERROR = 500;
const PAUSE_MS = 1_000;

/**
 * Open the dialog.
 * @param {PageShell} shell
 */
export async function openApproveAll(shell) {
    const dialog = new Dialog("Approve all that wait?", shell, { wide: true });
    const said = el("p", { role: "status", text: "Trying what each approval would do …" });
    const list = el("div", {
        class: "table-scroll approve-all",
        tabindex: "0",
        role: "region",
        "aria-label": "Rollouts",
    });
    const reason = reasonField(MAX_REASON);
    reason.node.hidden = true;
    put(
        dialog.body,
        el("p", {
            text: "An approval opens no other gate: freezes, cooldowns, turns to restart and the limits of the fleet hold back what they would hold back anyway, and it goes on when they open. Only what is listed here is approved.",
        }),
        list,
        said,
        reason.node,
    );
    put(
        dialog.buttons,
        button("Cancel", () => dialog.close()),
    );
    dialog.open();
    const rows = await dialog.attempt(() => tryAll(dialog, list, said));
    const left = (rows ?? []).filter((row) => typeof row.answer !== "string");
    if (rows === undefined || left.length === 0 || !dialog.isOpen) return;
    reason.node.hidden = false;
    dialog.buttons.append(submitButton(`Approve ${plural(left.length, "rollout")}`));
    dialog.form.addEventListener("submit", async () => {
        const given = reason.read();
        if (given === null) return;
        const done = await dialog.attempt(() => approveAll(dialog, left, given));
        shell.refresh();
        if (done === undefined || !dialog.isOpen) return;
        const outcomes = outcomesOf(
            left.map((row) => row.answer),
            null,
        );
        say(said, `Done. Of ${plural(left.length, "rollout")}: ${tally(outcomes)}.`);
        reason.node.hidden = true;
        const close = button("Close", () => dialog.close(), { class: "button primary" });
        put(dialog.buttons, close);
        close.focus();
    });
}

/**
 * Try to approve each rollout that waits, the oldest first, and show what comes of it.
 * @param {Dialog} dialog
 * @param {Element} list
 * @param {Element} said
 */
async function tryAll(dialog, list, said) {
    /** @type {RolloutPage[]} */
    const pages = await allPages("v1/rollouts", { state: "AwaitingApproval" });
    const waiting = pages.flatMap((page) => page.rollouts);
    const rows = waiting.toReversed().map(rowOf);
    put(list, tableOf(rows));
    for (const row of rows) {
        const { rollout, path } = row;
        if (!dialog.isOpen) return undefined;
        const bounds = [rollout.in_use_bound_ms, rollout.to_bound_ms];
        const [before, after] = await Promise.all(bounds.map((ms) => preview(path, ms)));
        row.answer = await tried(() => approve(row, "dry run", { dryRun: "All" }));
        put(row.latency, change(before, after, latency));
        put(
            row.late,
            change(before, after, (one) => about(one.late_a_day)),
        );
    }
    /** @type {FleetPage} */
    const { narrowing } = await get(query("v1/fleet", { limit: 1 }));
    const outcomes = outcomesOf(
        rows.map((row) => row.answer),
        narrowing,
    );
    for (const [n, { then }] of rows.entries()) show(then, outcomes[n]);
    const nothing = "No rollout waits for approval any more.";
    say(said, rows.length ? `Nothing is done yet. Of ${plural(rows.length, "rollout")}: ${tally(outcomes)}.` : nothing);
    return rows;
}

/**
 * Approve rollouts, the oldest first; once more those of which no answer came. It stops when the dialog is closed.
 * @param {Dialog} dialog
 * @param {Row[]} rows
 * @param {string} reason
 */
async function approveAll(dialog, rows, reason) {
    for (const row of rows) {
        if (!dialog.isOpen) return;
        row.answer = await tried(() => approve(row, reason, {}));
        show(row.then, outcomesOf([row.answer], null)[0]);
    }
    return true;
}

/**
 * @param {Row} row
 * @param {string} reason
 * @param {Record<string, string>} options
 * @returns {Promise<RolloutAnswer>}
 */
function approve({ path, rollout }, reason, options) {
    return send("POST", query(`${path}/rollouts/${rollout.id}:approve`, options), { reason });
}

/**
 * Return what a request comes to, or why it is refused. One that comes too soon after the others waits.
 * @template T
 * @param {() => Promise<T>} request
 * @returns {Promise<T | string>}
 */
async function tried(request) {
    for (;;) {
        try {
            return await request();
        } catch (error) {
            const concernsAll = !(error instanceof Rejected) || error.status >= SERVER_ERROR;
            if (concernsAll || error.status === UNAUTHENTICATED) throw error;
            if (error.status !== TOO_MANY) return error.message;
            await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        }
    }
}

/**
 * Return what a bound does; null where nobody knows.
 * @param {string} path
 * @param {number | null} boundMs
 * @returns {Promise<Preview | null>}
 */
async function preview(path, boundMs) {
    if (boundMs === null) return null;
    /** @type {Preview | string} */
    const found = await tried(() => get(query(`${path}/preview`, { bound_ms: boundMs })));
    return typeof found === "string" ? null : found;
}

/**
 * @param {RolloutAnswer} rollout
 * @returns {Row}
 */
function rowOf(rollout) {
    const [latencyNode, late, then] = [0, 0, 0].map(() => el("span", { text: "…" }));
    return { rollout, path: streamPath(rollout.job, rollout.stream), latency: latencyNode, late, then, answer: "" };
}

/** @param {Row[]} rows */
function tableOf(rows) {
    return figures(
        [
            { text: "Stream" },
            { text: "Bound", class: "number" },
            { text: "Mean latency", class: "number" },
            { text: "Late rows a day", class: "number" },
            { text: "Then" },
        ],
        rows.map(({ rollout, latency: latencyNode, late, then }) => ({
            cells: [
                [el("span", { class: "dim", text: `${rollout.job} / ` }), el("strong", { text: rollout.stream })],
                `${bound(rollout.in_use_bound_ms ?? rollout.from_bound_ms)} → ${bound(rollout.to_bound_ms)}`,
                latencyNode,
                late,
                then,
            ],
        })),
        { class: "cards", caption: "Rollouts that wait for approval, the oldest first" },
    );
}

/**
 * @param {Preview | null} before
 * @param {Preview | null} after
 * @param {(one: Preview) => string} text
 */
function change(before, after, text) {
    return [before, after].map((one) => (one === null ? "–" : text(one))).join(" → ");
}

/**
 * @param {Element} place
 * @param {Outcome} outcome
 */
function show(place, outcome) {
    put(place, badge(outcome.kind, outcome.name), " ", el("span", { class: "dim", text: outcome.text }));
}
