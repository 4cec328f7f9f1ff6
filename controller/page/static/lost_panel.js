// Who is lost: the values of a dimension that lose rows, and those that lose far more than the others.

import { Card } from "./card.js";
import { badge, el, figures, put } from "./dom.js";
import { count, duration, share } from "./format.js";

/** @import { LostAnswer, LostValue } from "api" */

const COLUMNS = ["Rows", "Lost", "Share lost", "Of all rows", "Of all lost", "Latest by"];

/** The card; it is shown only where the job counts by a dimension. */
export class LostPanel {
    #card = new Card("Who is lost", "lost");
    node = this.#card.node;

    constructor() {
        this.node.hidden = true;
    }

    /** @param {LostAnswer} answer */
    show({ dimension, total, values, more_values: more }) {
        this.#card.loaded();
        this.node.hidden = dimension === null;
        if (dimension === null) return;
        put(
            this.#card.body,
            el("p", {
                class: "hint",
                text: `${count(total.lost)} of ${count(total.rows)} rows over the SLO's window (${share(total.lost_ppm)})`,
            }),
            el(
                "div",
                { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Who is lost" },
                figures(
                    [{ text: dimension }, ...COLUMNS.map((text) => ({ text, class: "number" })), { text: "" }],
                    values.map((value) => ({ cells: cellsOf(value) })),
                ),
            ),
            more > 0 && el("p", { class: "hint", text: `${count(more)} more values lose no more than these` }),
        );
    }
}

/** @param {LostValue} value */
function cellsOf(value) {
    return [
        value.other ? "all others" : (value.value ?? "null"),
        count(value.rows),
        count(value.lost),
        share(value.lost_ppm),
        share(value.of_rows_ppm),
        share(value.of_lost_ppm),
        duration(value.max_late_ms),
        value.biased ? badge("warning", "biased") : "",
    ];
}
