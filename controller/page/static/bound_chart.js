// The bound and what the rows needed, over time, with the rollouts.

import { Card, TimeChart, drawMark, durationSteps } from "./chart.js";
import { el, put } from "./dom.js";
import { duration, fullMoment, moment, target } from "./format.js";
import { colour } from "./theme.js";
import { plural, rolloutState } from "./words.js";

const GOES_BEYOND = 2.5;
const SHOWN_BELOW = 0.3;
const MARKS_TOLD = 4;

/** The card. */
export class BoundChart {
    #card = new Card("Bound and needs over time", { name: "bound" });
    #marks = el("ul", { class: "marks" });
    #chart;

    constructor() {
        const step = (uPlot) => uPlot.paths.stepped({ align: 1 });
        this.#chart = new TimeChart(this.#card, {
            height: 250,
            isGap: (slot) => slot.rows === null,
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
                    colour: "series-target",
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
                    path: step,
                    value: (slot) => slot.in_use_bound_ms,
                    text: (slot) => duration(slot.in_use_bound_ms),
                },
            ],
            yRange: (least, most, slots) => rangeOf(slots),
            ...durationSteps,
            over: (plot, slots, model) => {
                for (const rollout of model.rollouts) markRollout(plot, rollout);
            },
            label: (slots, model) => labelOf(slots, model),
        });
        this.#card.body.append(this.#marks);
        this.node = this.#card.node;
    }

    /** Show a history. */
    show(history) {
        this.#card.loaded();
        this.#chart.show(history.slots, history.slot_us, [history.from_us, history.to_us], history);
        const told = history.rollouts.filter((rollout) => rollout.published_us !== null && wasTaken(rollout));
        put(
            this.#marks,
            told.slice(0, MARKS_TOLD).map((rollout) => {
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
                        text: `${moment(rollout.published_us)}  ${duration(rollout.from_bound_ms)} → ${duration(rollout.to_bound_ms)}, ${name}`,
                    }),
                );
            }),
            told.length > MARKS_TOLD &&
                el("li", { class: "dim", text: `and ${plural(told.length - MARKS_TOLD, "more rollout")}` }),
        );
    }

    end() {
        this.#chart.end();
    }
}

function rangeOf(slots) {
    const bounds = slots.flatMap((slot) => [slot.in_use_bound_ms, slot.effective_bound_ms]).filter((ms) => ms !== null);
    const needs = slots.flatMap((slot) => [slot.need_p90_ms, slot.need_target_ms]).filter((ms) => ms !== null);
    const most = Math.max(
        0,
        ...bounds,
        Math.min(Math.max(0, ...needs), GOES_BEYOND * Math.max(1, ...bounds, ...middle(needs))),
    );
    const top = (most || 1_000) * 1.08;
    // Below 0 are rows that any bound admits: worth a glimpse.
    return [Math.max(Math.min(0, ...slots.map((slot) => slot.need_p50_ms ?? 0)), -top * SHOWN_BELOW), top];
}

// A single slot of monstrous needs must not flatten the other thousand: half of them decide.
function middle(needs) {
    const sorted = needs.toSorted((one, other) => one - other);
    return sorted.length ? [sorted[Math.floor(sorted.length * 0.98)]] : [];
}

// Those that a newer one replaced before any job had them changed nothing: a mark, but no line.
function wasTaken(rollout) {
    return rollout.effective_us !== null || !["Superseded", "Expired"].includes(rollout.state);
}

function markRollout(plot, rollout) {
    if (rollout.published_us === null) return;
    const back = rollout.state === "RolledBack";
    const stroke = colour(back ? "bad" : wasTaken(rollout) ? "ink-soft" : "line-strong");
    drawMark(plot, rollout.published_us / 1e6, { stroke, shape: back ? "cross" : "down", line: wasTaken(rollout) });
    if (rollout.effective_us !== null)
        drawMark(plot, rollout.effective_us / 1e6, { stroke, dash: [2, 4], shape: "none" });
}

function labelOf(slots, history) {
    const seen = slots.filter((slot) => slot.rows !== null);
    const newest = seen.at(-1);
    if (!newest) return "Bound and needs over time: nothing was reported in this span.";
    return (
        `Bound and needs over time: ${seen.length} of ${slots.length} slots have data; in the newest the bound is ` +
        `${duration(newest.in_use_bound_ms)} and ${target(history.target_ppm)} of the rows needed ${duration(newest.need_target_ms)}.`
    );
}
