// The bound and the needs of the rows over time, with the rollouts.

import { bendOf, rangeOf, spansBelow } from "./bound_range.js";
import { Card } from "./card.js";
import { el, put } from "./dom.js";
import { durationSteps, sizeText, write } from "./drawing.js";
import { bound, duration, fullMoment, moment, target } from "./format.js";
import { markRollouts, reachedJob } from "./rollout_marks.js";
import { colour } from "./theme.js";
import { TimeChart } from "./time_chart.js";
import { plural, rolloutState } from "./words.js";

/** @import { History, HistorySlot } from "api" */
/** @import { Charted, Zoomed } from "./time_chart.js" */

/** Space between the marks of needs below 0, in pixels. */
const BELOW_STEP = 16;
const MARKS_LISTED = 4;

/** The card. */
export class BoundChart {
    #card = new Card("Bound and needs over time", "bound");
    #marks = el("ul", { class: "marks" });
    /** @type {TimeChart<HistorySlot>} */
    #chart;
    node = this.#card.node;

    /** @param {Zoomed} zoomed */
    constructor(zoomed) {
        this.#chart = new TimeChart(this.#card, {
            height: 250,
            series: [
                { name: "median need", colour: "series-band", width: 1, value: (slot) => slot.need_p50_ms },
                {
                    name: "needs, 50 to 90 %",
                    colour: "series-band",
                    width: 1,
                    bandTo: 0,
                    bandFill: "series-band",
                    value: (slot) => slot.need_p90_ms,
                    text: (slot) => `${duration(slot.need_p50_ms)} to ${duration(slot.need_p90_ms)}`,
                },
                {
                    name: "need at the target",
                    colour: "series-need",
                    value: (slot) => slot.need_target_ms,
                    text: (slot) => duration(slot.need_target_ms),
                    points: { show: true, size: 4 },
                },
                {
                    name: "effective",
                    colour: "series-effective",
                    width: 1.5,
                    dash: [5, 4],
                    value: (slot) => slot.effective_bound_ms,
                    text: (slot) => duration(slot.effective_bound_ms),
                },
                {
                    name: "bound in use",
                    colour: "series-bound",
                    width: 2.5,
                    path: (plot) => plot.paths.stepped?.({ align: 1 }),
                    value: (slot) => slot.in_use_bound_ms,
                    text: (slot) => duration(slot.in_use_bound_ms),
                },
            ],
            yRange: rangeOf,
            ...durationSteps,
            bend: bendOf,
            over: (plot, history) => {
                markEdges(plot, history);
                markRollouts(plot, history.rollouts ?? []);
            },
            zoomed,
            label,
        });
        this.#card.body.append(this.#marks);
    }

    /**
     * Show a history.
     * @param {History} history
     */
    show(history) {
        this.#chart.show(history);
        const listed = history.rollouts.filter((rollout) => rollout.published_us !== null && reachedJob(rollout));
        put(
            this.#marks,
            listed.slice(0, MARKS_LISTED).map((rollout) => {
                const { kind, name } = rolloutState(rollout.state);
                return el(
                    "li",
                    {},
                    el("span", {
                        class: `mark-sign kind-${kind}`,
                        text: rollout.state === "RolledBack" ? "✕" : "▼",
                        "aria-hidden": "true",
                    }),
                    el("span", {
                        title: fullMoment(rollout.published_us),
                        text: `${moment(rollout.published_us)}  ${bound(rollout.from_bound_ms)} → ${bound(rollout.to_bound_ms)}, ${name}`,
                    }),
                );
            }),
            listed.length > MARKS_LISTED &&
                el("li", { class: "dim", text: `and ${plural(listed.length - MARKS_LISTED, "more rollout")}` }),
        );
    }

    end() {
        this.#chart.end();
    }
}

/**
 * Say at the lower edge where needs are below 0, and at the upper one whether the scale is logarithmic.
 * @param {uPlot} plot
 * @param {Charted<HistorySlot>} history
 */
function markEdges(plot, { slots, slot_us: slotUs }) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const [size, step] = [4 * ratio, BELOW_STEP * ratio];
    const bottom = bbox.top + bbox.height;
    const spans = spansBelow(slots, slotUs);
    ctx.save();
    ctx.fillStyle = colour("series-need");
    for (const span of spans) {
        const [left, right] = span.map((us) => plot.valToPos(us / 1e6, "x", true));
        for (let x = left + Math.min(step, right - left) / 2; x < right; x += step) {
            ctx.beginPath();
            ctx.moveTo(x - size, bottom - 1.5 * size);
            ctx.lineTo(x + size, bottom - 1.5 * size);
            ctx.lineTo(x, bottom);
            ctx.fill();
        }
    }
    sizeText(ctx);
    ctx.fillStyle = colour("ink-soft");
    ctx.textAlign = "left";
    const x = bbox.left + 6 * ratio;
    ctx.textBaseline = "bottom";
    if (spans.length) write(ctx, "▼ needs below 0", x, bottom - 8 * ratio);
    ctx.textBaseline = "top";
    if (bendOf(slots) !== null) write(ctx, "logarithmic scale", x, bbox.top + 4 * ratio);
    ctx.restore();
}

/** @param {Charted<HistorySlot>} history */
function label({ slots, target_ppm }) {
    const seen = slots.filter((slot) => slot.rows !== null);
    const newest = seen.at(-1);
    if (!newest) return "Bound and needs over time: nothing was reported in this span.";
    return (
        `Bound and needs over time: ${seen.length} of ${slots.length} slots have data; in the newest the bound is ` +
        `${duration(newest.in_use_bound_ms)} and ${target(target_ppm)} of the rows needed ${duration(newest.need_target_ms)}.`
    );
}
