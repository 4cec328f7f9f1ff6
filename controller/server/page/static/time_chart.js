// A chart over time: axes, gaps, a readout that keyboards move too, and a table of the same figures.

import { boundTicks } from "./curve_scales.js";
import { el, figures, put, say } from "./dom.js";
import { AXIS_WIDTH, axis, hatchGaps, moveCursor, RIGHT, swatch, TIME_CURSOR, timeAxis } from "./drawing.js";
import { moment } from "./format.js";
import { colour, onTheme } from "./theme.js";

/** @import { Card } from "./card.js" */
/** @import { RolloutTimes } from "api" */
/** @typedef {{from_us: number, rows: number | null}} TimeSlot Without rows it is a gap */
/** @typedef {(fromUs: number, untilUs: number) => void} Zoomed */
/**
 * @template {TimeSlot} S
 * @typedef {{from_us: number, to_us: number, slot_us: number, target_ppm?: number, slots: S[], rollouts?: RolloutTimes[]}} Charted
 */

/**
 * @template {TimeSlot} S
 * @typedef {object} Series
 * @property {string} name
 * @property {string} [colour] Name of a colour of the style sheet; without it, the series is read and not drawn.
 * @property {(slot: S) => number | null} value Null leaves a gap.
 * @property {(slot: S) => string} [text] The value in words; without it, the readout leaves the series out.
 * @property {(plot: typeof uPlot) => uPlot.Series.PathBuilder | undefined} [path]
 * @property {number} [width]
 * @property {number[]} [dash]
 * @property {string} [fill]
 * @property {uPlot.Series.Points} [points]
 * @property {number} [bandTo] The series up to which the band below this one reaches.
 * @property {string} [bandFill]
 */
/**
 * @template {TimeSlot} S
 * @typedef {object} Options
 * @property {Series<S>[]} series
 * @property {(slots: S[], max: number) => [number, number]} yRange
 * @property {(value: number) => string} yValues
 * @property {number[]} [yIncrements]
 * @property {(slots: S[]) => number | null} [bend] Up to where the vertical scale is even before it is logarithmic;
 * null where it is even throughout.
 * @property {number} height
 * @property {string} [gap] What slots without rows are called.
 * @property {{column: string, text: (slot: S) => string}} [named] What a slot is called, if not by when it begins.
 * @property {(plot: uPlot, history: Charted<S>) => void} [over] Draws over the series.
 * @property {(history: Charted<S>) => string} label The chart in words.
 * @property {Zoomed} [zoomed] Called when a person drags over a part of it.
 */

const TABLE_ROWS = 500;
/** Room for a label of a logarithmic scale, in pixels. */
const LABEL_HEIGHT = 24;
/** A shorter drag is a click, in pixels. */
const MIN_DRAG = 8;

/**
 * A chart over time. Slots in which nothing was reported are hatched.
 * @template {TimeSlot} S
 */
export class TimeChart {
    #card;
    #options;
    #gap;
    #named;
    /** @type {uPlot | null} */
    #plot = null;
    /** @type {Charted<S> | null} */
    #history = null;
    /** @type {number | null} */
    #bend = null;
    #readout = el("div", { class: "readout" });
    #place = el("div", { class: "plot", tabindex: "0", role: "img" });
    #table;
    #time = el("span", { class: "readout-time" });
    #values;
    #resize = new ResizeObserver(() => this.#fit());
    #endTheme = onTheme(() => this.#plot && this.#build());

    /**
     * @param {Card} card
     * @param {Options<S>} options
     */
    constructor(card, options) {
        this.#card = card;
        this.#options = options;
        this.#gap = options.gap ?? "no data";
        this.#named = options.named ?? { column: "From", text: (/** @type {S} */ slot) => moment(slot.from_us) };
        this.#values = options.series.map(() => el("span", { class: "readout-value" }));
        this.#table = card.addTable((shown) => this.#onTable(shown));
        put(card.body, this.#readout, this.#place, this.#table);
        put(this.#readout, this.#time, this.#legend());
        this.#place.addEventListener("keydown", (event) => this.#onKey(event));
        this.#place.addEventListener("blur", () => this.#plot && moveCursor(this.#plot, null));
        this.#resize.observe(this.#place);
    }

    /**
     * Show a history.
     * @param {Charted<S>} history
     */
    show(history) {
        this.#card.loaded();
        this.#history = history;
        const bend = this.#options.bend?.(history.slots) ?? null;
        // A plot keeps the kind of its scale.
        if (this.#plot === null || bend !== this.#bend) {
            this.#bend = bend;
            this.#build();
        } else {
            this.#plot.setData(this.#data());
            this.#read(this.#plot.cursor.idx);
        }
        if (!this.#table.hidden) this.#fillTable();
        this.#place.setAttribute("aria-label", `${this.#options.label(history)} Arrow keys read it slot by slot.`);
    }

    end() {
        this.#resize.disconnect();
        this.#endTheme();
        this.#plot?.destroy();
    }

    get #slots() {
        return this.#history?.slots ?? [];
    }

    /** @returns {uPlot.AlignedData} */
    #data() {
        const half = (this.#history?.slot_us ?? 0) / 2;
        return [
            this.#slots.map((slot) => (slot.from_us + half) / 1e6),
            ...this.#options.series.map((one) => this.#slots.map((slot) => one.value(slot))),
        ];
    }

    #build() {
        this.#plot?.destroy();
        const { series, height, yRange, yValues, yIncrements, over, zoomed } = this.#options;
        this.#plot = new uPlot(
            {
                width: Math.max(this.#place.clientWidth, 200),
                height,
                ms: 1e-3,
                padding: [14, RIGHT, 0, 0],
                legend: { show: false },
                cursor: {
                    y: false,
                    drag: { setScale: false, x: zoomed !== undefined, y: false },
                    sync: { key: TIME_CURSOR },
                    points: { size: 7 },
                },
                scales: {
                    x: { time: true, range: () => this.#spanS() },
                    y: {
                        range: (_plot, _min, max) => yRange(this.#slots, max),
                        ...(this.#bend !== null && { distr: 4, asinh: this.#bend }),
                    },
                },
                axes: [
                    timeAxis(),
                    {
                        ...axis(),
                        size: AXIS_WIDTH,
                        values: (_plot, splits) => splits.map(yValues),
                        ...(yIncrements ? { incrs: yIncrements } : {}),
                        ...(this.#bend !== null && {
                            splits: (plot) =>
                                boundTicks(plot.scales.y.max ?? 0, (ms) => plot.valToPos(ms, "y"), LABEL_HEIGHT),
                            filter: (_plot, splits) => splits,
                        }),
                    },
                ],
                series: [
                    {},
                    ...series.map((one) => ({
                        label: one.name,
                        stroke: one.colour && colour(one.colour),
                        width: one.colour ? (one.width ?? 2) : 0,
                        dash: one.dash,
                        fill: one.fill ? colour(one.fill) : undefined,
                        paths: one.path?.(uPlot),
                        points: one.points ?? alonePoints(one),
                        spanGaps: false,
                    })),
                ],
                bands: series.flatMap(({ bandTo, bandFill }, n) =>
                    bandTo === undefined || bandFill === undefined
                        ? []
                        : [{ series: [n + 1, bandTo + 1], fill: colour(bandFill) }],
                ),
                hooks: {
                    drawClear: [(plot) => hatchGaps(plot, this.#slots, this.#history?.slot_us ?? 0)],
                    draw: [(plot) => this.#history && over?.(plot, this.#history)],
                    setCursor: [(plot) => this.#read(plot.cursor.idx)],
                    setSelect: [(plot) => this.#onSelect(plot)],
                },
            },
            this.#data(),
            this.#place,
        );
        this.#read(null);
    }

    /** @param {uPlot} plot */
    #onSelect(plot) {
        const { left, width } = plot.select;
        if (width < MIN_DRAG) return;
        const [fromS, untilS] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        this.#options.zoomed?.(Math.round(fromS * 1e6), Math.round(untilS * 1e6));
    }

    /** @returns {[number, number]} */
    #spanS() {
        return [(this.#history?.from_us ?? 0) / 1e6, (this.#history?.to_us ?? 0) / 1e6];
    }

    #fit() {
        const width = this.#place.clientWidth;
        if (this.#plot && width > 0 && width !== this.#plot.width) {
            this.#plot.setSize({ width, height: this.#options.height });
        }
    }

    #legend() {
        return [
            this.#options.series.map(
                (one, n) => one.text && legendEntry(one.colour && swatch(one), one.name, this.#values[n]),
            ),
            legendEntry(el("span", { class: "swatch swatch-gap" }), this.#gap),
        ];
    }

    /** @param {number | null | undefined} index */
    #read(index) {
        const chosen = this.#slots[index ?? -1];
        const slot = chosen ?? this.#slots.findLast((one) => one.rows !== null);
        say(this.#time, slot ? `${chosen ? "" : "newest: "}${this.#named.text(slot)}` : "nothing reported");
        this.#options.series.forEach((one, n) => {
            say(this.#values[n], !slot ? "" : slot.rows === null ? this.#gap : (one.text?.(slot) ?? ""));
        });
    }

    /** @param {KeyboardEvent} event */
    #onKey(event) {
        if (!this.#plot || !this.#slots.length) return;
        const last = this.#slots.length - 1;
        const now = this.#plot.cursor.idx ?? last;
        /** @type {Record<string, number>} */
        const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last };
        const next = moves[event.key];
        if (next === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        const index = Math.min(Math.max(next, 0), last);
        this.#readout.setAttribute("aria-live", "polite");
        moveCursor(this.#plot, this.#plot.valToPos(this.#plot.data[0][index], "x"));
    }

    /** @param {boolean} shown */
    #onTable(shown) {
        this.#place.hidden = shown;
        if (shown) this.#fillTable();
        else this.#fit();
    }

    #fillTable() {
        const series = this.#options.series.filter((one) => one.text);
        put(
            this.#table,
            figures(
                [{ text: this.#named.column }, ...series.map((one) => ({ text: one.name, class: "number" }))],
                this.#slots
                    .toReversed()
                    .slice(0, TABLE_ROWS)
                    .map((slot) => ({
                        cells: [
                            this.#named.text(slot),
                            ...(slot.rows === null ? [this.#gap] : series.map((one) => one.text?.(slot))),
                        ],
                    })),
            ),
        );
    }
}

/**
 * @param {Element | string | undefined} sample
 * @param {string} name
 * @param {Element} [value]
 */
function legendEntry(sample, name, value) {
    return el("span", { class: "readout-entry" }, sample, el("span", { class: "readout-name", text: name }), value);
}

/**
 * Return the points of a line: the values that stand alone.
 * @param {{colour?: string, width?: number}} line Bars have no width, and show such a value by themselves.
 * @returns {uPlot.Series.Points}
 */
function alonePoints({ colour: name, width }) {
    if (!name || width === 0) return { show: false };
    return { show: true, size: 6, fill: colour(name), filter: alone };
}

/**
 * Return which values of a series stand alone: a line cannot show them, so that they are drawn as points.
 * @param {uPlot} plot
 * @param {number} series
 */
function alone(plot, series) {
    const values = plot.data[series];
    const known = (/** @type {number} */ n) => values[n] !== null && values[n] !== undefined;
    return [...values.keys()].filter((n) => known(n) && !known(n - 1) && !known(n + 1));
}
