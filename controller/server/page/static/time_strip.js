// An axis of time as the charts have it, for a picture above it that is none: the same ticks, and the same cursor.

import { el } from "./dom.js";
import { AXIS_WIDTH, axis, moveCursor, RIGHT, TIME_CURSOR, timeAxis } from "./drawing.js";
import { onTheme } from "./theme.js";

const HEIGHT = 44;

/** The axis; `node` is as wide as a chart. */
export class TimeStrip {
    node = el("div", { class: "time-strip", "aria-hidden": "true" });
    /** @type {uPlot | null} */
    #plot = null;
    #fromUs = 0;
    #toUs = 1;
    #moved;
    #endTheme = onTheme(() => this.#plot && this.#build());

    /** @param {(left: number | null) => void} moved Called with the place of the cursor, in pixels; null for none. */
    constructor(moved) {
        this.#moved = moved;
    }

    /**
     * Show a span.
     * @param {number} fromUs
     * @param {number} toUs
     */
    show(fromUs, toUs) {
        this.#fromUs = fromUs;
        this.#toUs = toUs;
        if (this.#plot) this.#plot.setData(this.#data());
        else this.#build();
    }

    /** Fill the width. */
    fit() {
        const width = this.node.clientWidth;
        if (this.#plot && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
    }

    /**
     * Put the cursor of all charts of the span at a place; null takes it away.
     * @param {number | null} left Pixels.
     */
    point(left) {
        if (this.#plot) moveCursor(this.#plot, left);
    }

    end() {
        this.#endTheme();
        this.#plot?.destroy();
    }

    /** @returns {uPlot.AlignedData} */
    #data() {
        return [
            [this.#fromUs / 1e6, this.#toUs / 1e6],
            [null, null],
        ];
    }

    #build() {
        this.#plot?.destroy();
        this.#plot = new uPlot(
            {
                width: Math.max(this.node.clientWidth, 200),
                height: HEIGHT,
                ms: 1e-3,
                padding: [0, RIGHT, 0, 0],
                legend: { show: false },
                cursor: {
                    y: false,
                    drag: { x: false, y: false },
                    points: { show: false },
                    sync: { key: TIME_CURSOR },
                },
                scales: {
                    x: { time: true, range: () => [this.#fromUs / 1e6, this.#toUs / 1e6] },
                    y: { range: () => [0, 1] },
                },
                axes: [
                    timeAxis(),
                    { ...axis(), size: AXIS_WIDTH, values: () => [], grid: { show: false }, ticks: { show: false } },
                ],
                series: [{}, {}],
                hooks: {
                    setCursor: [({ cursor: { left } }) => this.#moved(left === undefined || left < 0 ? null : left)],
                },
            },
            this.#data(),
            this.node,
        );
    }
}
