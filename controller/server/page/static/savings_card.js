// What the fleet would save under its recommended bounds, and the streams where there is something to do.

import { badge, el, figures, put } from "./dom.js";
import { about, between, bytes, count, duration, hours, share, target } from "./format.js";
import { streamHash } from "./router.js";
import { plural, sentence } from "./words.js";

/** @import { Figures, Interval, Savings, SavingsOfStream, SavingsPage, Total } from "api" */
/** @import { Child } from "./dom.js" */

const MAX_STREAMS = 5;

/** The card; hidden while nothing was reported. */
export class SavingsCard {
    #sums = el("summary", { class: "savings-sums" });
    #body = el("div");
    // A phone shows the streams themselves first.
    #list = el("details", { open: matchMedia("(min-width: 1001px)").matches }, this.#sums, this.#body);
    node = el("section", { class: "card savings", "aria-label": "Savings", hidden: true }, this.#list);

    /** @param {SavingsPage} page */
    show({ streams, totals }) {
        this.node.hidden = !streams.some(({ savings }) => savings.now !== null);
        put(
            this.#sums,
            el("h2", { text: "Savings a day" }),
            sumText("waiting", totals.waiting_ms, hours),
            sumText("late rows", totals.late_rows, count),
            sumText("state", totals.state_bytes, bytes),
            totals.losing > 0 &&
                badge("critical", `${plural(totals.losing, "stream")} ${totals.losing === 1 ? "loses" : "lose"} rows`),
        );
        const found = streams.filter(
            ({ savings: of, saved }) => of.loses || (saved !== null && of.bound_ms !== of.recommended_bound_ms),
        );
        const rows = found.slice(0, MAX_STREAMS).map(rowOf);
        const left = totals.streams - rows.length;
        put(
            this.#body,
            rows.length > 0 &&
                figures(
                    [
                        { text: "Stream" },
                        { text: "Latency", class: "number" },
                        { text: "Waiting a day", class: "number" },
                        { text: "Late rows a day", class: "number" },
                        { text: "State", class: "number col-off" },
                        { text: "", class: "col-off" },
                    ],
                    rows,
                    { class: "savings-table", caption: "Streams that lose rows first, then those that save most" },
                ),
            left > 0 && el("p", { class: "hint" }, "All streams: ", el("code", { text: "tidemark savings" })),
        );
    }
}

/**
 * @param {string} name
 * @param {Total} total
 * @param {(number: number) => string} text
 */
function sumText(name, { streams, now, recommended, saved }, text) {
    if (!streams) return null;
    return el(
        "span",
        { class: "savings-sum", title: `of ${plural(streams, "stream")}` },
        el("span", { class: "dim", text: `${name} ` }),
        el("strong", { text: savedText(saved, text) }),
        el("span", { class: "dim", text: ` (${between(now, text)} → ${between(recommended, text)})` }),
    );
}

/** @param {SavingsOfStream} row */
function rowOf({ job, stream, saved, savings: row }) {
    const { reason, unknown } = row;
    /** @type {(pick: (of: Figures) => Interval, text: (number: number) => string) => string} */
    const change = (pick, text) =>
        [row.now, row.recommended].flatMap((of) => (of === null ? [] : [between(pick(of), text)])).join(" → ");
    /** @type {Child[]} */
    const cells = [
        [
            el("a", { href: streamHash(job, stream), text: `${job} / ${stream}` }),
            row.loses && [" ", badge("critical", "loses rows", lossText(row))],
        ],
        change((of) => of.latency_ms, duration),
        saved === null ? "–" : savedText(saved.waiting_ms, hours),
        change((of) => of.late_rows, count),
        row.now?.state_bytes.min === null
            ? change(
                  (of) => of.state_rows,
                  (rows) => `${about(rows)} rows`,
              )
            : change((of) => of.state_bytes, bytes),
        el("span", { class: "savings-reason dim", title: sentence(reason), text: sentence(reason) }),
    ];
    return { cells, title: unknown.map(sentence).join(" ") };
}

/**
 * @param {Interval} saved
 * @param {(number: number) => string} text
 */
function savedText({ min, max }, text) {
    if (min === null && max === null) return "–";
    if (min !== null && min < 0 && (max === null || max > 0)) {
        return max === null ? `at most ${text(-min)} more` : `${text(-min)} more to ${text(max)} less`;
    }
    if (max === null || max > 0 || min === 0) return `${between({ min, max }, text)} less`;
    return `${between({ min: -max, max: min === null ? null : -min }, text)} more`;
}

/** @param {Savings} row */
function lossText({ completeness_max_ppm: most, target_ppm: wanted }) {
    return `At most ${share(most)} are good${wanted === null ? ", and no SLO is set" : `, target ${target(wanted)}`}`;
}
