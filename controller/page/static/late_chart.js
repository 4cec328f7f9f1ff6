// Rows that came too late, over time.

import { Card, TimeChart } from "./chart.js";
import { about, count, trimmed } from "./format.js";
import { plural } from "./words.js";

/** The card. */
export class LateChart {
    #card = new Card("Late rows over time", { name: "late" });
    #chart;

    constructor() {
        const bars = (uPlot) => uPlot.paths.bars({ size: [0.9, 60, 1], align: 0 });
        this.#chart = new TimeChart(this.#card, {
            height: 150,
            isGap: (slot) => slot.rows === null,
            series: [
                {
                    name: "late, perhaps",
                    colour: "series-doubt",
                    fill: "series-doubt",
                    width: 0,
                    path: bars,
                    value: (slot) => slot.late_max,
                    text: (slot) => told(slot.late_max, slot.pairs),
                },
                {
                    name: "late for sure",
                    colour: "series-late",
                    fill: "series-late",
                    width: 0,
                    path: bars,
                    value: (slot) => slot.late_min,
                    text: (slot) => told(slot.late_min, slot.pairs),
                },
                {
                    name: "fate unknown",
                    colour: "series-effective",
                    width: 1.5,
                    dash: [3, 3],
                    value: (slot) => slot.unjudged_rows || null,
                    text: (slot) => count(slot.unjudged_rows),
                },
            ],
            yRange: (least, most) => [0, Math.max(most ?? 0, 4) * 1.1],
            yValues: (rows) => (Number.isInteger(rows) ? about(rows) : ""),
            label: (slots) => labelOf(slots),
        });
        this.node = this.#card.node;
    }

    /** Show a history. */
    show(history) {
        this.#card.loaded();
        this.#chart.show(history.slots, history.slot_us, [history.from_us, history.to_us], history);
    }

    end() {
        this.#chart.end();
    }
}

function told(late, pairs) {
    if (late === null) return "–";
    return late && pairs ? `${count(late)} (${percent(late / pairs)})` : count(late);
}

function percent(part) {
    return part < 0.0001 ? "< 0.01 %" : `${trimmed(part * 100, 2)} %`;
}

function labelOf(slots) {
    const seen = slots.filter((slot) => slot.rows !== null);
    if (!seen.length) return "Late rows over time: nothing was reported in this span.";
    const late = seen.reduce((sum, slot) => sum + (slot.late_max ?? 0), 0);
    return `Late rows over time: ${plural(late, "row")} at the most came too late in ${seen.length} slots with data of ${slots.length}.`;
}
