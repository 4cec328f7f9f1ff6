// The bound and the needs of the rows over time, with the rollouts.

import { Card } from "./card.js";
import { el, put } from "./dom.js";
import { durationSteps } from "./drawing.js";
import { bound, duration, fullMoment, moment, target } from "./format.js";
import { markRollouts, reachedJob } from "./rollout_marks.js";
import { TimeChart } from "./time_chart.js";
import { plural, rolloutState } from "./words.js";

/** @import { History, HistorySlot } from "api" */
/** @import { Charted, Zoomed } from "./time_chart.js" */

/** Needs may stretch the chart to so many times the bounds. */
const STRETCH = 2.5;
/** Share of the chart's height that needs below 0 may take. */
const BELOW_ZERO = 0.3;
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
                    text: (slot) => `${duration(slot.need_p50_ms)} – ${duration(slot.need_p90_ms)}`,
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
            over: (plot, { rollouts }) => markRollouts(plot, rollouts ?? []),
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
 * @param {HistorySlot[]} slots
 * @returns {[number, number]}
 */
function rangeOf(slots) {
    const bounds = known(slots.flatMap((slot) => [slot.in_use_bound_ms, slot.effective_bound_ms]));
    const needs = known(slots.flatMap((slot) => [slot.need_p90_ms, slot.need_target_ms]));
    // One slot of huge needs must not flatten the others.
    const usual = needs.toSorted((one, other) => one - other)[Math.floor(needs.length * 0.98)] ?? 1;
    const stretched = Math.min(Math.max(0, ...needs), STRETCH * Math.max(1, ...bounds, usual));
    const top = (Math.max(0, ...bounds, stretched) || 1_000) * 1.08;
    // Every bound admits rows with a need below 0: show a little of them.
    return [Math.max(Math.min(0, ...slots.map((slot) => slot.need_p50_ms ?? 0)), -top * BELOW_ZERO), top];
}

/** @param {(number | null)[]} values */
function known(values) {
    return values.filter((value) => value !== null);
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
