// Who is lost: the values of a dimension that lose rows, and those that lose far more than the others.

import { Card } from "./card.js";
import { badge, el, figures, put } from "./dom.js";
import { count, duration, share } from "./format.js";
import { sentence } from "./words.js";

/** @import { LostAnswer, ValueLoss } from "api" */

/** Why a row was not taken; rows that were set aside are not lost. */
const REASONS = /** @type {const} */ ([
    ["late", "late"],
    ["no_event_time", "without an event time"],
    ["set_aside", "set aside"],
]);
const SHARES = ["Share lost", "Of all rows", "Of all lost", "Half by", "99 % by", "Latest by"];

/** The card; it is shown only where the job counts by a dimension. */
export class LostPanel {
    #card = new Card("Who is lost", "lost");
    node = this.#card.node;

    constructor() {
        this.node.hidden = true;
    }

    /** @param {LostAnswer[]} answers Of each dimension one. */
    show(answers) {
        this.#card.loaded();
        const counted = answers.filter(({ dimension }) => dimension !== null);
        this.node.hidden = counted.length === 0;
        put(this.#card.body, ...counted.flatMap(partsOf));
    }
}

/** @param {LostAnswer} answer */
function partsOf({ dimension, total, values, more_values: more, counted }) {
    const reasons = REASONS.filter(([name]) => total[name] > 0);
    const why = reasons.map(([name, text]) => `${count(total[name])} ${text}`).join(", ");
    const columns = ["Rows", "Lost", ...reasons.map(([, text]) => text), ...SHARES];
    const lost = `${count(total.lost)} of ${count(total.rows)} rows over the SLO's window (${share(total.lost_ppm)})`;
    return [
        el("p", { class: "hint", text: why ? `${lost}: ${why}` : lost }),
        counted && el("p", { class: "hint", text: sentence(counted.text) }),
        el(
            "div",
            { class: "table-scroll", tabindex: "0", role: "region", "aria-label": `Who is lost by ${dimension}` },
            figures(
                [{ text: dimension ?? "" }, ...columns.map((text) => ({ text, class: "number" })), { text: "" }],
                values.map((value) => ({ cells: cellsOf(value, reasons) })),
            ),
        ),
        more > 0 && el("p", { class: "hint", text: `${count(more)} more values lose no more than these` }),
    ];
}

/**
 * @param {ValueLoss} value
 * @param {typeof REASONS[number][]} reasons
 */
function cellsOf(value, reasons) {
    return [
        value.other ? "all others" : (value.value ?? "null"),
        count(value.rows),
        count(value.lost),
        ...reasons.map(([name]) => count(value[name])),
        share(value.lost_ppm),
        share(value.of_rows_ppm),
        share(value.of_lost_ppm),
        duration(value.median_late_ms),
        duration(value.p99_late_ms),
        duration(value.max_late_ms),
        value.biased ? badge("warning", "biased") : "",
    ];
}
