// The budget over the SLO's window: how it was used up, and how fast it is used up now.

import { Card } from "./card.js";
import { el, put } from "./dom.js";
import { hatchGaps } from "./drawing.js";
import { about, budget, coarse, count, duration, trimmed } from "./format.js";
import { markRollouts } from "./rollout_marks.js";
import { TimeChart } from "./time_chart.js";
import { plural } from "./words.js";

/** @import { BudgetHistory, BudgetSlot, BurnRate, RolloutAnswer } from "api" */
/** @typedef {BudgetSlot & {rows: number | null}} Slot */

const PPM = 1_000_000;

/** The card. */
export class BudgetChart {
    #card = new Card("Budget over the SLO's window", "budget");
    #rates = el("dl", { class: "rates" });
    #end = el("p");
    /** @type {RolloutAnswer[]} */
    #rollouts = [];
    /** @type {TimeChart<Slot>} */
    #chart;
    node = this.#card.node;

    constructor() {
        const name = el("span", { class: "rates-name", text: "Burn rate over" });
        const summary = el("div", { class: "budget-summary" }, name, this.#rates, this.#end);
        this.#chart = new TimeChart(this.#card, {
            height: 170,
            series: [
                {
                    name: "budget left",
                    colour: "series-curve",
                    fill: "series-fill",
                    path: (plot) => plot.paths.stepped?.({ align: 1 }),
                    value: (slot) => share(slot.remaining_ppm),
                    text: (slot) => budget(slot.remaining_ppm),
                },
                {
                    name: "lost in the slot",
                    value: () => null,
                    text: (slot) => count(slot.bad_max),
                },
            ],
            yRange: (slots) => [Math.min(0, ...slots.map((slot) => share(slot.remaining_ppm) ?? 0)) * 1.08, 100],
            yValues: (percent) => `${trimmed(percent, 1)} %`.replace("-", "−"),
            over: (plot, { slots, slot_us: slotUs }) => {
                // Over the area, which covers what lies below it.
                hatchGaps(plot, slots, slotUs);
                drawZero(plot);
                markRollouts(plot, this.#rollouts);
            },
            label,
        });
        this.#card.body.prepend(summary);
    }

    /**
     * Show a budget.
     * @param {BudgetHistory} history
     * @param {RolloutAnswer[]} rollouts
     */
    show(history, rollouts) {
        this.node.hidden = history.budget === null;
        this.#card.loaded();
        if (history.budget === null) return;
        this.#rollouts = rollouts;
        put(this.#rates, history.rates.map(rateItem));
        put(this.#end, endText(history));
        const slots = history.slots.map((slot) => ({ ...slot, rows: slot.counted }));
        // Before the first report nothing could be lost.
        const seen = slots.slice(
            Math.max(
                slots.findIndex((slot) => slot.rows !== null),
                0,
            ),
        );
        this.#chart.show({ ...history, from_us: seen[0]?.from_us ?? history.from_us, slots: seen });
    }

    end() {
        this.#chart.end();
    }
}

/** @param {number | null} ppm */
function share(ppm) {
    return ppm === null ? null : ppm / 10_000;
}

/** @param {BurnRate} rate */
function rateItem({ span_ms: spanMs, rate_ppm: rate, bad_max: bad, counted }) {
    return el(
        "div",
        { title: `${count(bad)} of ${count(counted)} lost` },
        el("dt", { text: duration(spanMs) }),
        el("dd", { text: rateText(rate) }),
    );
}

/** @param {number | null} ppm */
function rateText(ppm) {
    if (ppm === null) return "–";
    const times = ppm / PPM;
    return `${times > 0 && times < 0.01 ? "< 0.01" : trimmed(times, times < 10 ? 2 : 0)}×`;
}

/** @param {BudgetHistory} history */
function endText({ budget: whole, exhausted_in_ms: ms }) {
    if (whole === null || whole.remaining_ppm === null) return "";
    if (whole.remaining_ppm < 0) return `${about(whole.bad_max - whole.allowed)} more were lost than allowed.`;
    if (ms === null) return "At the last hour's rate it lasts.";
    return ms === 0 ? "Nothing is left." : `At the last hour's rate nothing is left in ${coarse(ms)}.`;
}

/** @param {uPlot} plot */
function drawZero({ ctx, bbox, valToPos }) {
    const y = Math.round(valToPos(0, "y", true));
    ctx.save();
    ctx.strokeStyle = getComputedStyle(document.body).color;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
}

/** @param {{slots: Slot[]}} history */
function label({ slots }) {
    const newest = slots.at(-1);
    const seen = slots.filter((slot) => slot.rows !== null).length;
    return `Budget over the SLO's window: ${budget(newest?.remaining_ppm)} is left; ${plural(seen, "slot")} of ${slots.length} have data.`;
}
