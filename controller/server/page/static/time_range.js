// The span of the charts over time: a length up to now, or a part of the past; both stand in the address.

import { nowUs } from "./api.js";
import { el } from "./dom.js";

/** @import { Options } from "./router.js" */

/** @type {[string, string, number][]} Name in the address, name on the button, and milliseconds. */
const SPANS = [
    ["1h", "1 h", 3_600_000],
    ["6h", "6 h", 21_600_000],
    ["1d", "1 d", 86_400_000],
    ["7d", "7 d", 604_800_000],
    ["30d", "30 d", 2_592_000_000],
];
const WIDEST = SPANS.length - 1;
const MIN_US = 120_000_000;
/** A span of which the data cover less begins with them. */
const MOSTLY = 0.75;

/** The span, and the buttons that choose it. */
export class TimeRange {
    /** Whether a person has chosen it; else it is fitted to the data. */
    #chosen = false;
    #span = 1;
    /** @type {number | null} Start, when it is not so much before the end as the span says. */
    #fromUs = null;
    /** @type {number | null} End; null for now. */
    #untilUs = null;
    /** @type {number | null} The first batch, where a span that nobody has chosen begins with it. */
    #firstUs = null;
    #changed;
    #buttons;
    node;

    /**
     * @param {Options} options Those of the address.
     * @param {() => void} changed Called when a person chooses another one.
     */
    constructor(options, changed) {
        this.#changed = changed;
        const named = SPANS.findIndex(([name]) => name === options.span);
        if (named >= 0) {
            this.#span = named;
            this.#chosen = true;
        }
        this.#untilUs = timeIn(options.until);
        const from = timeIn(options.from);
        if (from !== null && this.#untilUs !== null && from < this.#untilUs) this.#fromUs = from;
        this.#buttons = SPANS.map(([name, text], n) =>
            el("button", { type: "button", data: { span: name }, text, on: { click: () => this.#choose(n) } }),
        );
        this.node = el(
            "div",
            { class: "segments", role: "group", "aria-label": "Time span of the charts" },
            this.#buttons,
        );
        this.#mark();
    }

    /** End of a part of the past; null for now. */
    get untilUs() {
        return this.#untilUs;
    }

    /** What the address says of it. @returns {Options} */
    get options() {
        return {
            span: this.#chosen && this.#fromUs === null ? SPANS[this.#span][0] : "",
            from: String(this.#fromUs ?? ""),
            until: String(this.#untilUs ?? ""),
        };
    }

    /**
     * Unless a person has chosen one, take the shortest span that reaches back to the first batch, and begin with it
     * where much of the span would be empty.
     * @param {number | null} firstUs
     */
    fit(firstUs) {
        if (this.#chosen || this.#fromUs !== null || firstUs === null) return;
        const endUs = this.#untilUs ?? nowUs();
        const found = SPANS.findIndex(([, , ms]) => endUs - firstUs <= ms * 1_000);
        this.#span = found < 0 ? WIDEST : found;
        if (endUs - firstUs < MOSTLY * SPANS[this.#span][2] * 1_000) this.#firstUs = firstUs;
        this.#mark();
    }

    /** Whether the span begins with the first batch. */
    get fitted() {
        return this.#firstUs !== null && !this.#chosen && this.#fromUs === null && this.#untilUs === null;
    }

    /**
     * Return the span in whole slots, so that the same request comes again and its answer is found in the cache.
     * @param {number} points How many slots.
     */
    spanUs(points) {
        if (this.#fromUs !== null && this.#untilUs !== null) return { from_us: this.#fromUs, to_us: this.#untilUs };
        const lengthUs = SPANS[this.#span][2] * 1_000;
        const slotUs = lengthUs / points;
        const toUs = this.#untilUs ?? Math.ceil(nowUs() / slotUs) * slotUs;
        const firstUs = this.fitted ? Math.floor((this.#firstUs ?? 0) / slotUs) * slotUs : 0;
        return { from_us: Math.max(toUs - lengthUs, firstUs), to_us: toUs };
    }

    /**
     * Show a part of the past.
     * @param {number} fromUs
     * @param {number} untilUs
     */
    zoom(fromUs, untilUs) {
        const middle = (fromUs + untilUs) / 2;
        const half = Math.max(untilUs - fromUs, MIN_US) / 2;
        this.#fromUs = Math.round(middle - half);
        this.#untilUs = Math.round(middle + half);
        this.#mark();
        this.#changed();
    }

    /** @param {number | null} us */
    showUntil(us) {
        this.#fromUs = null;
        this.#untilUs = us;
        this.#mark();
        this.#changed();
    }

    /** @param {number} span */
    #choose(span) {
        this.#span = span;
        this.#chosen = true;
        if (this.#fromUs !== null) this.#fromUs = this.#untilUs = null;
        this.#mark();
        this.#changed();
    }

    #mark() {
        for (const [n, one] of this.#buttons.entries()) {
            one.setAttribute("aria-pressed", String(n === this.#span && this.#fromUs === null && !this.fitted));
        }
    }
}

/** @param {string | undefined} text */
function timeIn(text) {
    const us = Number(text);
    return Number.isSafeInteger(us) && us > 0 ? us : null;
}
