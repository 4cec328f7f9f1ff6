// Partitions as a heat map of the needs of their rows over time.

import { Card } from "./card.js";
import { button, el, icon, put, say } from "./dom.js";
import { contextOf, hatch } from "./drawing.js";
import { duration, moment, target } from "./format.js";
import { marksOf, partitionTable } from "./partition_table.js";
import { reachedJob } from "./rollout_marks.js";
import { colour, onTheme } from "./theme.js";
import { TimeStrip } from "./time_strip.js";
import { plural, sentence } from "./words.js";

/** @import { Heatmap as HeatmapAnswer, HeatmapPartition, Partition, PartitionPage, RolloutTimes } from "api" */
/** @typedef {{from_us: number, to_us: number, rollouts: RolloutTimes[]}} Span */

const ROW_HEIGHT = 19;
const CELL_HEIGHT = 17;
const FEW_ROWS = 16;
const MAX_SKEWS = 3;
/** Upper edges of the colours as multiples of the effective bound: the first five are within it, the others beyond. */
const EDGES = [0.125, 0.25, 0.5, 0.75, 1, 1.5, 3, Infinity];
const AT_BOUND = EDGES.indexOf(1);
/** @type {Record<string, [number, number]>} Columns and rows to move by. */
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The card. */
export class Heatmap {
    #card = new Card("Partitions: what their rows needed", "heatmap");
    node = this.#card.node;
    #skews = el("ul", { class: "skews" });
    #readout = el("div", { class: "readout", "aria-live": "off" });
    #names = el("ol", { class: "heat-names" });
    #canvas = el("canvas", { class: "heat-canvas" });
    #cell = el("span", { class: "heat-cell", hidden: true });
    #cursor = el("span", { class: "heat-cursor", hidden: true });
    #frame = el(
        "div",
        {
            class: "heat-frame",
            tabindex: "0",
            role: "img",
            on: {
                pointermove: (event) => this.#onPointer(event),
                pointerleave: () => this.#leave(),
                blur: () => this.#leave(),
                keydown: (event) => this.#onKey(event),
                click: () => this.#at && this.#choose(this.#rows[this.#at[1]]),
            },
        },
        this.#canvas,
        this.#cell,
        this.#cursor,
    );
    #strip = new TimeStrip((left) => this.#placeCursor(left));
    #legend = el("div", { class: "readout heat-legend" });
    #more = button("", () => this.#toggleAll(), { class: "button quiet small" });
    #heat = el("div", { class: "heat" }, this.#names, this.#frame, this.#strip.node);
    #table;
    #chosen;
    /** @type {HeatmapAnswer | null} */
    #map = null;
    /** @type {Span} The span of the charts above it. */
    #span = { from_us: 0, to_us: 1, rollouts: [] };
    /** @type {Map<string, Partition>} */
    #partitions = new Map();
    #all = false;
    /** @type {[number, number] | null} Column and row of the cell that is read. */
    #at = null;
    #resize = new ResizeObserver(() => this.#fit());
    #endTheme = onTheme(() => this.#draw());

    /** @param {(name: string, withoutMs: number | null) => void} chosen Called when a person asks for a partition's curve. */
    constructor(chosen) {
        this.#chosen = chosen;
        this.#card.controls.append(this.#more);
        this.#table = this.#card.addTable((shown) => this.#onTable(shown));
        put(this.#card.body, this.#skews, this.#legend, this.#heat, this.#readout, this.#table);
        this.#resize.observe(this.#frame);
    }

    /**
     * Show a heat map and what is known of its partitions.
     * @param {HeatmapAnswer} map
     * @param {PartitionPage} page
     * @param {Span} span What the charts above it show, at the same places.
     */
    show(map, page, span) {
        this.#card.loaded();
        this.#map = map;
        this.#span = span;
        this.#strip.show(span.from_us, span.to_us);
        this.#partitions = new Map(page.partitions.map((one) => [one.partition, one]));
        put(this.#skews, skewItems(page));
        this.#layOut(map);
    }

    end() {
        this.#resize.disconnect();
        this.#strip.end();
        this.#endTheme();
    }

    get #rows() {
        const rows = this.#map?.partitions ?? [];
        return this.#all ? rows : rows.slice(0, FEW_ROWS);
    }

    get #slots() {
        return this.#map?.slots ?? [];
    }

    /** @param {HeatmapAnswer} map */
    #layOut(map) {
        const rows = this.#rows;
        put(
            this.#names,
            rows.map((row) => this.#name(row)),
        );
        this.#more.hidden = map.partitions.length <= FEW_ROWS;
        this.#more.textContent = this.#all ? `Only the ${FEW_ROWS} most costly` : `All ${map.partitions.length}`;
        this.#frame.setAttribute(
            "aria-label",
            `Heat map of ${plural(rows.length, "partition")} by ${plural(map.slots.length, "slot")}, the most costly first. Arrow keys read it cell by cell.`,
        );
        put(this.#legend, legendOf(map));
        this.#draw();
        this.#point(null);
        if (!this.#table.hidden) this.#fillTable();
    }

    /** @param {HeatmapPartition} row */
    #name(row) {
        const marks = marksOf(row, this.#partitions.get(row.partition));
        return el(
            "li",
            { title: `${row.partition}: ${marks.map((mark) => mark.name).join(", ") || "active"}` },
            el(
                "button",
                {
                    type: "button",
                    class: "link heat-name",
                    title: "Show its own curve over the stream's",
                    on: { click: () => this.#choose(row) },
                },
                el("bdi", { text: row.partition }),
            ),
            marks.map((mark) =>
                el(
                    "span",
                    { class: `heat-mark kind-${mark.kind}` },
                    icon(mark.kind),
                    el("span", { class: "visually-hidden", text: mark.name }),
                ),
            ),
        );
    }

    #draw() {
        const width = this.#frame.clientWidth;
        const [rows, slots] = [this.#rows, this.#slots];
        if (!width || !slots.length) return;
        const ratio = devicePixelRatio;
        const height = rows.length * ROW_HEIGHT;
        this.#canvas.width = Math.round(width * ratio);
        this.#canvas.height = Math.round(height * ratio);
        this.#canvas.style.height = `${height}px`;
        const context = contextOf(this.#canvas);
        /** @type {(x: number) => number} */
        const left = (x) => Math.round(this.#leftOf(x) * ratio);
        /** @type {(fromX: number, toX: number, y: number) => void} */
        const fill = (fromX, toX, y) =>
            context.fillRect(
                left(fromX),
                Math.round(y * ROW_HEIGHT * ratio),
                left(toX) - left(fromX),
                Math.round(CELL_HEIGHT * ratio),
            );
        context.fillStyle = hatch(context);
        for (const y of rows.keys()) fill(0, slots.length, y);
        const needs = rows.flatMap((row) => row.cells.map((cell) => cell?.need_ms ?? 0));
        const scale = Math.max(this.#map?.effective_bound_ms ?? 0, 0) || Math.max(1, ...needs);
        const colours = EDGES.map((_, n) => colour(`heat-${n + 1}`));
        rows.forEach((row, y) => {
            row.cells.forEach((cell, x) => {
                const need = cell?.need_ms ?? null;
                if (need === null) return;
                context.fillStyle = colours[EDGES.findIndex((edge) => need / scale <= edge)];
                fill(x, x + 1, y);
            });
        });
        context.fillStyle = colour("ink-soft");
        for (const { published_us: us } of this.#span.rollouts.filter(reachedJob)) {
            if (us !== null) context.fillRect(Math.round(this.#placeOf(us) * ratio), 0, ratio, height * ratio);
        }
    }

    #fit() {
        this.#strip.fit();
        this.#draw();
    }

    /**
     * Return where a slot begins, in pixels; the one after the last is where the last ends.
     * @param {number} x
     */
    #leftOf(x) {
        return this.#placeOf((this.#map?.from_us ?? 0) + x * (this.#map?.slot_us ?? 0));
    }

    /** @param {number} us */
    #placeOf(us) {
        const { from_us: fromUs, to_us: toUs } = this.#span;
        return (Math.min(Math.max((us - fromUs) / (toUs - fromUs), 0), 1) || 0) * this.#frame.clientWidth;
    }

    /** @param {HeatmapPartition} row */
    #choose({ partition }) {
        this.#chosen(partition, this.#partitions.get(partition)?.without_bound_ms ?? null);
    }

    /** @param {number | null} left */
    #placeCursor(left) {
        this.#cursor.hidden = left === null;
        this.#cursor.style.left = `${left ?? 0}px`;
    }

    /** @param {PointerEvent} event */
    #onPointer(event) {
        const box = this.#canvas.getBoundingClientRect();
        const left = event.clientX - box.left;
        const x = this.#slots.findIndex((_, n) => left >= this.#leftOf(n) && left < this.#leftOf(n + 1));
        const y = Math.floor((event.clientY - box.top) / ROW_HEIGHT);
        this.#point(x >= 0 && y >= 0 ? [x, y] : null);
        this.#strip.point(left);
    }

    /** @param {KeyboardEvent} event */
    #onKey(event) {
        const move = MOVES[event.key];
        if (!move || this.#map === null) return;
        event.preventDefault();
        event.stopPropagation();
        this.#readout.setAttribute("aria-live", "polite");
        const [x, y] = this.#at ?? [this.#slots.length, -1];
        /** @type {(index: number, first: number, last: number) => number} */
        const within = (index, first, last) => Math.min(Math.max(index, first), last);
        // Slots that lie beside the span have no width.
        const first = this.#slots.findIndex((_, n) => this.#leftOf(n + 1) > 0);
        const last = this.#slots.findLastIndex((_, n) => this.#leftOf(n) < this.#frame.clientWidth);
        this.#point([within(x + move[0], first, last), within(y + move[1], 0, this.#rows.length - 1)]);
        if (this.#at) this.#strip.point((this.#leftOf(this.#at[0]) + this.#leftOf(this.#at[0] + 1)) / 2);
    }

    /**
     * Read a cell; null reads none.
     * @param {[number, number] | null} at
     */
    #point(at) {
        const rows = this.#rows;
        const row = at && rows[at[1]];
        this.#at = row ? at : null;
        this.#cell.hidden = !row;
        if (!at || !row) {
            say(
                this.#readout,
                rows.length
                    ? "Point at a cell, or use the arrow keys, to read it; click it for the curve of its partition."
                    : "No partition was seen in this span.",
            );
            return;
        }
        const [x, y] = at;
        Object.assign(this.#cell.style, {
            left: `${this.#leftOf(x)}px`,
            top: `${y * ROW_HEIGHT}px`,
            width: `${this.#leftOf(x + 1) - this.#leftOf(x)}px`,
            height: `${CELL_HEIGHT}px`,
        });
        const cell = row.cells[x];
        const text =
            !cell || cell.need_ms === null
                ? "nothing seen"
                : `need ${duration(cell.need_ms)}, ${plural(cell.pairs, "row")}`;
        say(this.#readout, `${row.partition} at ${moment(this.#slots[x])}: ${text}`);
    }

    #leave() {
        this.#point(null);
        this.#strip.point(null);
    }

    #toggleAll() {
        this.#all = !this.#all;
        if (this.#map) this.#layOut(this.#map);
    }

    /** @param {boolean} shown */
    #onTable(shown) {
        this.#heat.hidden = this.#legend.hidden = this.#readout.hidden = shown;
        if (shown) this.#fillTable();
        else this.#fit();
    }

    #fillTable() {
        put(this.#table, partitionTable(this.#map?.partitions ?? [], this.#partitions, this.#chosen));
    }
}

/** @param {HeatmapAnswer} map */
function legendOf({ effective_bound_ms: bound, share_ppm: share, total, partitions }) {
    const unseen = total - partitions.length;
    return [
        el("span", { class: "readout-entry", text: `need of ${target(share)} of a slot's rows:` }),
        bound !== null && bound > 0
            ? el(
                  "span",
                  { class: "heat-scale" },
                  EDGES.map((_, n) =>
                      el(
                          "span",
                          { class: "heat-step" },
                          el("span", { class: "heat-swatch", style: { "--swatch": `var(--heat-${n + 1})` } }),
                          edgeText(n, bound),
                      ),
                  ),
              )
            : el("span", {
                  class: "readout-entry dim",
                  text: `darker is more; the effective bound is ${bound === null ? "not known" : duration(bound)}`,
              }),
        el("span", { class: "readout-entry" }, el("span", { class: "swatch swatch-gap" }), "nothing seen"),
        unseen > 0 &&
            el("span", { class: "readout-entry dim", text: `${plural(unseen, "less costly partition")} not shown` }),
    ];
}

/**
 * Return the text beside a colour: the bound, what is beyond all edges, and every other edge.
 * @param {number} n
 * @param {number} bound
 */
function edgeText(n, bound) {
    const text = duration(EDGES[n] * bound);
    if (n === AT_BOUND) return el("strong", { text: `${text} (effective bound)` });
    if (n === EDGES.length - 1) return `> ${duration(EDGES[n - 1] * bound)}`;
    return n % 2 ? text : null;
}

/** @param {PartitionPage} page */
function skewItems({ partitions }) {
    return partitions
        .filter((one) => one.skewed)
        .toSorted((one, other) => (other.costs_ms ?? 0) - (one.costs_ms ?? 0))
        .slice(0, MAX_SKEWS)
        .map((one) => el("li", { class: "skew" }, icon("warning"), el("span", { text: sentence(one.text ?? "") })));
}
