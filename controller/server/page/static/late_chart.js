// Late rows over time.

import { Card } from "./card.js";
import { bars } from "./drawing.js";
import { about, count, trimmed } from "./format.js";
import { markRollouts } from "./rollout_marks.js";
import { TimeChart } from "./time_chart.js";
import { plural } from "./words.js";

/** @import { History, HistorySlot } from "api" */
/** @import { Charted, Zoomed } from "./time_chart.js" */

/** The card. */
export class LateChart {
    #card = new Card("Late rows over time", "late");
    /** @type {TimeChart<HistorySlot>} */
    #chart;
    node = this.#card.node;

    /** @param {Zoomed} zoomed */
    constructor(zoomed) {
        this.#chart = new TimeChart(this.#card, {
            height: 150,
            series: [
                {
                    name: "possibly late",
                    colour: "series-doubt",
                    fill: "series-doubt",
                    width: 0,
                    path: bars,
                    value: (slot) => slot.late_max,
                    text: (slot) => lateText(slot.late_max, slot.pairs),
                },
                {
                    name: "certainly late",
                    colour: "series-late",
                    fill: "series-late",
                    width: 0,
                    path: bars,
                    value: (slot) => slot.late_min,
                    text: (slot) => lateText(slot.late_min, slot.pairs),
                },
                {
                    name: "not judged",
                    colour: "series-effective",
                    width: 1.5,
                    dash: [3, 3],
                    value: (slot) => slot.unjudged_rows || null,
                    text: (slot) => count(slot.unjudged_rows),
                },
            ],
            yRange: (_slots, max) => [0, Math.max(max ?? 0, 4) * 1.1],
            yValues: (rows) => (Number.isInteger(rows) ? about(rows) : ""),
            over: (plot, { rollouts }) => markRollouts(plot, rollouts ?? []),
            zoomed,
            label,
        });
    }

    /**
     * Show a history.
     * @param {History} history
     */
    show(history) {
        this.#chart.show(history);
    }

    end() {
        this.#chart.end();
    }
}

/**
 * @param {number | null} late
 * @param {HistorySlot["pairs"]} pairs
 */
function lateText(late, pairs) {
    return late && pairs ? `${count(late)} (${percent(late / pairs)})` : count(late);
}

/** @param {number} part */
function percent(part) {
    return part < 0.0001 ? "< 0.01 %" : `${trimmed(part * 100, 2)} %`;
}

/** @param {Charted<HistorySlot>} history */
function label({ slots }) {
    const seen = slots.filter((slot) => slot.rows !== null);
    if (!seen.length) return "Late rows over time: nothing was reported in this span.";
    const late = seen.reduce((sum, slot) => sum + (slot.late_max ?? 0), 0);
    return `Late rows over time: at most ${plural(late, "row")} came too late; ${seen.length} of ${slots.length} slots have data.`;
}
