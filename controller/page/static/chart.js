// What all charts over time share: axes, gaps, a readout that keyboards move too, and a table of the same figures.

import { button, el, put, say } from "./dom.js";
import { day, duration, moment } from "./format.js";
import { colour, onTheme } from "./theme.js";

const { uPlot } = globalThis;
const DURATIONS_MS = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5,
    144e5, 216e5, 432e5, 864e5, 1728e5, 4320e5, 864e6,
];
export const AXIS_WIDTH = 78;
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const TABLE_ROWS = 500;

/** A card with a heading, controls at its right, and a body. */
export class Card {
    constructor(title, { name }) {
        this.controls = el("span", { class: "row card-controls" });
        this.body = el("div", { class: "card-body" });
        this.node = el(
            "section",
            { class: `card panel panel-${name} loading`, "aria-label": title },
            el("div", { class: "card-head" }, el("h2", { text: title }), this.controls),
            this.body,
        );
    }

    /** There is something to show now. */
    loaded() {
        this.node.classList.remove("loading");
    }
}

/**
 * A chart over time. `series` says what is drawn: {name, colour, value(slot), text(slot), path, width, dash, fill}.
 * The slots have `from_us`; what is null in one is a gap, which is hatched where `isGap(slot)`.
 */
export class TimeChart {
    constructor(
        card,
        { series, isGap, height = 210, yRange, yValues, yIncrements = null, under = () => {}, over = () => {}, label },
    ) {
        this.#card = card;
        this.#series = series;
        this.#isGap = isGap;
        this.#options = { height, yRange, yValues, yIncrements, under, over, label };
        this.#table = button("As a table", () => this.#toggleTable(), {
            class: "button quiet small",
            "aria-pressed": "false",
        });
        card.controls.append(this.#table);
        put(card.body, this.#readout, this.#place, this.#tablePlace);
        this.#place.addEventListener("keydown", (event) => this.#onKey(event));
        this.#place.addEventListener("blur", () => this.#plot?.setCursor({ left: -10, top: -10 }));
        this.#resize.observe(this.#place);
        this.#endTheme = onTheme(() => this.#plot && this.#build());
    }

    #card;
    #series;
    #isGap;
    #options;
    #table;
    #plot = null;
    #slots = [];
    #widthUs = 0;
    #span = [0, 0];
    #model = null;
    #readout = el("div", { class: "readout" });
    #place = el("div", { class: "plot", tabindex: "0", role: "img" });
    #tablePlace = el("div", { class: "table-scroll", hidden: true, tabindex: "0", role: "region" });
    #values = [];
    #time = null;
    #resize = new ResizeObserver(() => this.#fit());
    #endTheme;

    /** Show slots of `widthUs` over the span [fromUs, toUs]; `model` is whatever the drawing needs besides. */
    show(slots, widthUs, span, model) {
        this.#slots = slots;
        this.#widthUs = widthUs;
        this.#span = span;
        this.#model = model;
        if (this.#plot === null) this.#build();
        else {
            this.#plot.setData(this.#data());
            this.#tell(this.#plot.cursor.idx);
        }
        if (!this.#tablePlace.hidden) this.#fillTable();
        this.#place.setAttribute("aria-label", `${this.#options.label(slots, model)} Arrow keys read it slot by slot.`);
        this.#tablePlace.setAttribute("aria-label", this.#card.node.getAttribute("aria-label"));
    }

    end() {
        this.#resize.disconnect();
        this.#endTheme();
        this.#plot?.destroy();
    }

    #data() {
        const half = this.#widthUs / 2;
        return [
            this.#slots.map((slot) => (slot.from_us + half) / 1e6),
            ...this.#series.map((one) => this.#slots.map((slot) => one.value(slot, this.#model))),
        ];
    }

    #build() {
        this.#plot?.destroy();
        const { height, yRange, yValues, yIncrements, under, over } = this.#options;
        this.#buildReadout();
        this.#plot = new uPlot(
            {
                width: Math.max(this.#place.clientWidth, 200),
                height,
                ms: 1e-3,
                padding: [14, 24, 0, 0],
                legend: { show: false },
                cursor: {
                    y: false,
                    drag: { setScale: false, x: false, y: false },
                    sync: { key: "time" },
                    points: { size: 7 },
                },
                scales: {
                    x: { time: true, range: () => [this.#span[0] / 1e6, this.#span[1] / 1e6] },
                    y: { range: (plot, least, most) => yRange(least, most, this.#slots, this.#model) },
                },
                axes: [
                    timeAxis(),
                    {
                        ...axis(),
                        size: AXIS_WIDTH,
                        values: (plot, splits) => splits.map(yValues),
                        ...(yIncrements ? { incrs: yIncrements } : {}),
                    },
                ],
                series: [
                    {},
                    ...this.#series.map((one) => ({
                        label: one.name,
                        stroke: one.stroke === null ? null : colour(one.colour),
                        width: one.width ?? 2,
                        dash: one.dash,
                        fill: one.fill ? colour(one.fill) : undefined,
                        paths: one.path?.(uPlot),
                        points: one.points ?? { show: false },
                        spanGaps: false,
                    })),
                ],
                bands: this.#series.flatMap((one, n) =>
                    one.bandTo === undefined ? [] : [{ series: [n + 1, one.bandTo + 1], fill: colour(one.bandFill) }],
                ),
                hooks: {
                    drawClear: [
                        (plot) => {
                            hatchGaps(plot, this.#slots, this.#widthUs, this.#isGap);
                            under(plot, this.#slots, this.#model);
                        },
                    ],
                    draw: [(plot) => over(plot, this.#slots, this.#model)],
                    setCursor: [(plot) => this.#tell(plot.cursor.idx)],
                },
            },
            this.#data(),
            this.#place,
        );
        this.#tell(null);
    }

    #fit() {
        const width = this.#place.clientWidth;
        if (this.#plot && width > 0 && width !== this.#plot.width)
            this.#plot.setSize({ width, height: this.#options.height });
    }

    #buildReadout() {
        this.#time = el("span", { class: "readout-time" });
        this.#values = this.#series.map((one) => (one.text ? el("span", { class: "readout-value" }) : null));
        put(
            this.#readout,
            this.#time,
            this.#series.map(
                (one, n) =>
                    one.text &&
                    el(
                        "span",
                        { class: "readout-entry" },
                        swatch(one),
                        el("span", { class: "readout-name", text: one.name }),
                        this.#values[n],
                    ),
            ),
            el(
                "span",
                { class: "readout-entry" },
                el("span", { class: "swatch swatch-gap" }),
                el("span", { class: "readout-name", text: "no data" }),
            ),
        );
    }

    #tell(index) {
        const chosen = index !== null && index !== undefined ? this.#slots[index] : null;
        const slot = chosen ?? this.#slots.findLast((one) => !this.#isGap(one));
        say(this.#time, slot ? `${chosen ? "" : "newest: "}${moment(slot.from_us)}` : "nothing reported");
        this.#series.forEach((one, n) => {
            if (one.text)
                say(this.#values[n], slot ? (this.#isGap(slot) ? "no data" : one.text(slot, this.#model)) : "");
        });
    }

    #onKey(event) {
        if (!this.#plot || !this.#slots.length) return;
        const last = this.#slots.length - 1;
        const now = this.#plot.cursor.idx ?? last;
        const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        const index = Math.min(Math.max(next, 0), last);
        this.#readout.setAttribute("aria-live", "polite");
        this.#plot.setCursor({ left: this.#plot.valToPos(this.#plot.data[0][index], "x"), top: 10 });
    }

    #toggleTable() {
        const shown = this.#tablePlace.hidden;
        this.#tablePlace.hidden = !shown;
        this.#place.hidden = shown;
        this.#table.setAttribute("aria-pressed", String(shown));
        if (shown) this.#fillTable();
        else this.#fit();
    }

    #fillTable() {
        const told = this.#series.filter((one) => one.text);
        const rows = this.#slots.toReversed().slice(0, TABLE_ROWS);
        put(
            this.#tablePlace,
            el(
                "table",
                { class: "figures" },
                el(
                    "thead",
                    {},
                    el(
                        "tr",
                        {},
                        el("th", { scope: "col", text: "From" }),
                        told.map((one) => el("th", { scope: "col", class: "number", text: one.name })),
                    ),
                ),
                el(
                    "tbody",
                    {},
                    rows.map((slot) =>
                        el(
                            "tr",
                            {},
                            el("th", { scope: "row", text: moment(slot.from_us) }),
                            this.#isGap(slot)
                                ? el("td", { class: "dim", colspan: String(told.length), text: "no data" })
                                : told.map((one) => el("td", { class: "number", text: one.text(slot, this.#model) })),
                        ),
                    ),
                ),
            ),
        );
    }
}

/** A sample of how a series is drawn. */
export function swatch(one) {
    return el("span", {
        class: `swatch ${one.dash ? "swatch-dashed" : ""} ${one.path || one.fill ? "swatch-solid" : ""}`,
        style: { "--swatch": `var(--${one.bandFill ?? one.colour})` },
    });
}

/** What the axes of all charts have in common. */
export function axis() {
    return {
        stroke: colour("ink-soft"),
        font: FONT,
        grid: { stroke: colour("line"), width: 1 },
        ticks: { stroke: colour("line"), width: 1, size: 5 },
        gap: 5,
    };
}

/** An axis of durations. */
export const durationSteps = { yIncrements: DURATIONS_MS, yValues: (ms) => duration(ms) };

function timeAxis() {
    return {
        ...axis(),
        size: 42,
        space: 74,
        values: (plot, splits, index, space, step) => {
            let before = null;
            return splits.map((seconds) => {
                const at = new Date(seconds * 1_000);
                const today = day(at);
                if (step >= 86_400) return today;
                const two = (number) => String(number).padStart(2, "0");
                const time = `${two(at.getHours())}:${two(at.getMinutes())}${step < 60 ? `:${two(at.getSeconds())}` : ""}`;
                const told = today === before ? time : `${time}\n${today}`;
                before = today;
                return told;
            });
        },
    };
}

/** Return a pattern of slanted lines: what is unknown. */
export function hatch(context) {
    const tile = document.createElement("canvas");
    const ratio = devicePixelRatio || 1;
    tile.width = tile.height = Math.round(8 * ratio);
    const ink = tile.getContext("2d");
    ink.strokeStyle = colour("hatch");
    ink.lineWidth = ratio * 1.2;
    const size = tile.width;
    for (const shift of [-size, 0, size]) {
        ink.beginPath();
        ink.moveTo(shift, size);
        ink.lineTo(shift + size, 0);
        ink.stroke();
    }
    return context.createPattern(tile, "repeat");
}

function hatchGaps(plot, slots, widthUs, isGap) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = hatch(ctx);
    const draw = (fromUs, toUs) => {
        const left = Math.max(plot.valToPos(fromUs / 1e6, "x", true), bbox.left);
        const right = Math.min(plot.valToPos(toUs / 1e6, "x", true), bbox.left + bbox.width);
        if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
    };
    let start = null;
    slots.forEach((slot, n) => {
        if (isGap(slot)) start ??= slot.from_us;
        if (start !== null && (!isGap(slot) || n === slots.length - 1)) {
            draw(start, isGap(slot) ? slot.from_us + widthUs : slot.from_us);
            start = null;
        }
    });
    ctx.restore();
}

/** Draw a line down the plot at `seconds`, with a mark of `shape` at its top. */
export function drawMark(plot, seconds, { stroke, dash = [], shape = "down", line = true }) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    const x = Math.round(plot.valToPos(seconds, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = stroke;
    ctx.lineWidth = ratio;
    ctx.setLineDash(dash.map((part) => part * ratio));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + (line ? bbox.height : 0));
    ctx.stroke();
    ctx.setLineDash([]);
    const size = 5 * ratio;
    ctx.beginPath();
    if (shape === "cross") {
        ctx.lineWidth = 2 * ratio;
        ctx.moveTo(x - size, bbox.top - 2 * size);
        ctx.lineTo(x + size, bbox.top);
        ctx.moveTo(x + size, bbox.top - 2 * size);
        ctx.lineTo(x - size, bbox.top);
        ctx.stroke();
    } else if (shape === "down") {
        ctx.moveTo(x - size, bbox.top - 1.6 * size);
        ctx.lineTo(x + size, bbox.top - 1.6 * size);
        ctx.lineTo(x, bbox.top);
        ctx.fill();
    }
    ctx.restore();
}
