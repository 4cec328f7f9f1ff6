// What is tried beside the SLO in force, while something is: what it would have admitted and cost, and its promotion.

import { confirm } from "./actions.js";
import { getTagged, query, Rejected, send } from "./api.js";
import { Card } from "./card.js";
import { Dialog } from "./dialog.js";
import { el, figures, put } from "./dom.js";
import { DryRun } from "./dry_run.js";
import { about, duration, moment, shares, target } from "./format.js";
import { consequencesOf } from "./slo_form.js";
import { sentence } from "./words.js";

/** @import { ShadowAnswer, ShadowOutcome, ShadowSlo, SloAnswer, SloSet, StreamStatus } from "api" */
/** @import { Shell } from "./stream.js" */
/** @typedef {{value: ShadowAnswer, etag: string | null}} Read */

const NOT_FOUND = 404;

/**
 * Read what is tried, afresh: what is counted changes without its ETag. Null while nothing is.
 * @param {string} path
 * @param {StreamStatus} status
 * @returns {Promise<Read | null>}
 */
export async function readShadow(path, status) {
    if (status.shadow_since_us === null) return null;
    try {
        return await getTagged(`${path}/shadow`);
    } catch (error) {
        // It was removed since the status was read.
        if (error instanceof Rejected && error.status === NOT_FOUND) return null;
        throw error;
    }
}

/** The card; it is hidden while nothing is tried. */
export class ShadowPanel {
    #card = new Card("Shadow beside the SLO", "shadow");
    node = this.#card.node;
    #path;
    #shell;
    /** What is drawn: buttons are left in place while nothing has changed, so that no click is lost. */
    #drawn = "";

    /**
     * @param {string} path
     * @param {Shell} shell
     */
    constructor(path, shell) {
        this.#path = path;
        this.#shell = shell;
        this.node.hidden = true;
    }

    /**
     * @param {Read | null} found Null while nothing is tried.
     * @param {StreamStatus} status
     */
    show(found, status) {
        this.#card.loaded();
        this.node.hidden = found === null;
        const drawn = JSON.stringify([found, status.slo, status.in_use_bound_ms, this.#shell.caller.whyNot]);
        if (drawn === this.#drawn) return;
        this.#drawn = drawn;
        if (found === null || status.slo === null) return put(this.#card.body);
        const { value: tried } = found;
        const { caller } = this.#shell;
        put(
            this.#card.body,
            tableOf(tried, status.slo),
            tried.notes.map((note) => el("p", { class: "hint", text: sentence(note) })),
            el("p", {
                class: "hint",
                text: `Since ${moment(tried.since_us)}: ${tried.reason}. Counted as if each bound had been in effect as soon as it was recommended.`,
            }),
            el(
                "p",
                { class: "row" },
                caller.button("Promote …", () => promote(this.#path, found, status, this.#shell), {
                    class: "button primary",
                    "aria-label": "Promote the shadow …",
                }),
                caller.button("Remove …", () => remove(this.#path, found, this.#shell), {
                    class: "button",
                    "aria-label": "Remove the shadow …",
                }),
            ),
        );
    }
}

/**
 * @param {ShadowAnswer} tried
 * @param {SloAnswer} slo
 */
function tableOf(tried, slo) {
    /** @type {[string, (one: ShadowOutcome) => string][]} */
    const rows = [
        ["Bound now", (one) => duration(one.bound_ms)],
        ["Rows admitted", (one) => shares(one.completeness_min_ppm, one.completeness_max_ppm)],
        ["Late rows", (one) => (one.rows ? `${about(one.late_max)} of ${about(one.rows)}` : "–")],
        ["Rows unknown", (one) => about(one.unknown_rows)],
        ["Mean latency", (one) => duration(one.latency_wall_ms)],
    ];
    return figures(
        [{ text: "" }, { text: "In force", class: "number" }, { text: "Shadow", class: "number" }],
        [...sloRows(slo, tried), ...rows.map(([name, text]) => [name, text(tried.in_use), text(tried.shadow)])].map(
            (cells) => ({ cells }),
        ),
        { caption: "The shadow beside what is in force" },
    );
}

/**
 * Return the fields of two SLOs that a shadow may change, as far as there is something to show.
 * @param {SloAnswer} slo
 * @param {ShadowSlo} tried
 */
function sloRows(slo, tried) {
    /** @type {[string, (one: ShadowSlo | SloAnswer) => string][]} */
    const rows = [
        ["Target", (one) => target(one.target_ppm)],
        ["Latency cap", (one) => duration(one.latency_cap_ms ?? null)],
        ["State cap", (one) => about(one.state_cap_rows ?? null)],
        ["On conflict", (one) => one.on_conflict?.replaceAll("_", " ") ?? "–"],
    ];
    return rows
        .map(([name, text]) => [name, text(slo), text(tried)])
        .filter(([name, one, other]) => name === "Target" || one !== other);
}

/**
 * @param {string} path
 * @param {Read} found
 * @param {StreamStatus} status
 * @param {Shell} shell
 */
function promote(path, { value: tried, etag }, status, shell) {
    const dialog = new Dialog("Promote the shadow to the SLO?", shell, { wide: true });
    /** @type {DryRun<object, SloSet>} */
    const run = new DryRun(dialog, shell, {
        verb: "Promote",
        read: () => ({}),
        send: (_, options) => {
            /** @type {() => Promise<SloSet>} */
            const write = () =>
                send("POST", query(`${path}/shadow:promote`, options), null, { "If-Match": etag ?? "*" });
            return dialog.attempt(write);
        },
        consequences: (answer) => consequencesOf(path, status.in_use_bound_ms, answer),
        done: (answer) => `The SLO is ${target(answer.target_ppm)} now, generation ${answer.generation}.`,
    });
    put(
        dialog.body,
        status.slo &&
            figures(
                [{ text: "" }, { text: "Before", class: "number" }, { text: "After", class: "number" }],
                sloRows(status.slo, tried).map((cells) => ({ cells })),
                { caption: "What changes in the SLO" },
            ),
        el("p", { text: "All else of the SLO stays. The bound that follows is rolled out as the policy allows." }),
        run.reason.node,
        run.consequences,
    );
    run.changed();
    dialog.open();
}

/**
 * @param {string} path
 * @param {Read} found
 * @param {Shell} shell
 */
function remove(path, { etag }, shell) {
    confirm({
        title: "Remove the shadow?",
        texts: ["The SLO in force stays as it is. What was counted is kept in the log only."],
        verb: "Remove",
        kind: "danger",
        shell,
        action: (reason) => send("DELETE", query(`${path}/shadow`, { reason }), null, { "If-Match": etag ?? "*" }),
        done: "The shadow is removed.",
    });
}
