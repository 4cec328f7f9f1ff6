// Partitions as a heat map of what their rows needed, over time.

import { Card, hatch } from "./chart.js";
import { badge, button, el, icon, put, say } from "./dom.js";
import { count, duration, moment, target } from "./format.js";
import { colour, onTheme } from "./theme.js";
import { plural, sentence } from "./words.js";

const ROW = 19;
const FEW = 16;
/** Upper edges of the colours, as multiples of the bound in use; the first five are within it, the others beyond. */
const EDGES = [0.125, 0.25, 0.5, 0.75, 1, 1.5, 3, Infinity];
const WITHIN = 5;
const STATES = { Idle: ["idle", "idle"], Behind: ["warn", "behind"], Gone: ["idle", "gone"] };

/** The card. */
export class Heatmap {
    #card = new Card("Partitions: what their rows needed", { name: "heatmap" });
    #sentences = el("ul", { class: "skews" });
    #readout = el("div", { class: "readout", "aria-live": "off" });
    #names = el("ol", { class: "heat-names" });
    #canvas = el("canvas", { class: "heat-canvas" });
    #frame = el(
        "div",
        { class: "heat-frame", tabindex: "0", role: "img" },
        this.#canvas,
        el("span", { class: "heat-cell", hidden: true }),
    );
    #times = el("div", { class: "heat-times", "aria-hidden": "true" });
    #legend = el("div", { class: "readout heat-legend" });
    #more = button("", () => this.#toggleAll(), { class: "button quiet small" });
    #table = button("As a table", () => this.#toggleTable(), { class: "button quiet small", "aria-pressed": "false" });
    #tablePlace = el("div", {
        class: "table-scroll",
        hidden: true,
        tabindex: "0",
        role: "region",
        "aria-label": "Partitions",
    });
    #map = null;
    #partitions = null;
    #all = false;
    #at = null;
    #resize = new ResizeObserver(() => this.#draw());
    #endTheme = onTheme(() => this.#draw());
    #heat = el("div", { class: "heat" }, this.#names, this.#frame, el("span"), this.#times);

    constructor() {
        this.#card.controls.append(this.#more, this.#table);
        put(this.#card.body, this.#sentences, this.#legend, this.#heat, this.#readout, this.#tablePlace);
        this.#frame.addEventListener("pointermove", (event) => this.#onPointer(event));
        this.#frame.addEventListener("pointerleave", () => this.#point(null));
        this.#frame.addEventListener("blur", () => this.#point(null));
        this.#frame.addEventListener("keydown", (event) => this.#onKey(event));
        this.#resize.observe(this.#frame);
        this.node = this.#card.node;
    }

    /** Show a heat map and what is known of its partitions. */
    show(map, partitions) {
        this.#card.loaded();
        this.#map = map;
        this.#partitions = new Map(partitions.partitions.map((one) => [one.partition, one]));
        put(this.#sentences, sentences(partitions));
        this.#layOut();
    }

    end() {
        this.#resize.disconnect();
        this.#endTheme();
    }

    #rows() {
        return this.#all ? this.#map.partitions : this.#map.partitions.slice(0, FEW);
    }

    #layOut() {
        const { partitions, total } = this.#map;
        const rows = this.#rows();
        put(
            this.#names,
            rows.map((row) => this.#name(row)),
        );
        this.#more.hidden = partitions.length <= FEW;
        this.#more.textContent = this.#all ? `Only the ${FEW} most costly` : `All ${partitions.length}`;
        const unseen = total - partitions.length;
        this.#frame.setAttribute(
            "aria-label",
            `Heat map of ${plural(rows.length, "partition")} by ${plural(this.#map.slots.length, "slot")}, the most costly first. Arrow keys read it cell by cell.`,
        );
        this.#tellLegend(unseen);
        this.#draw();
        this.#point(null);
        if (!this.#tablePlace.hidden) this.#fillTable();
    }

    #name(row) {
        const known = this.#partitions.get(row.partition);
        const marks = marksOf(row, known);
        return el(
            "li",
            { title: `${row.partition}: ${marks.map((mark) => mark.name).join(", ") || "active"}` },
            el("span", { class: "heat-name", text: row.partition }),
            marks.map((mark) =>
                el("span", { class: `heat-mark kind-${mark.kind}` }, icon(mark.kind), el("span", { text: mark.name })),
            ),
        );
    }

    #tellLegend(unseen) {
        const bound = this.#map.bound_ms;
        const edges = bound ? EDGES.map((edge) => (edge === Infinity ? null : duration(edge * bound))) : [];
        put(
            this.#legend,
            el("span", { class: "readout-entry", text: `need of ${target(this.#map.share_ppm)} of a slot's rows:` }),
            bound
                ? el(
                      "span",
                      { class: "heat-scale" },
                      EDGES.map((edge, n) =>
                          el(
                              "span",
                              { class: "heat-step" },
                              el("span", { class: "heat-swatch", style: { "--swatch": `var(--heat-${n + 1})` } }),
                              n === WITHIN - 1
                                  ? el("strong", { text: `${edges[n]} (bound in use)` })
                                  : n === EDGES.length - 1
                                    ? `> ${edges[n - 1]}`
                                    : n % 2
                                      ? edges[n]
                                      : null,
                          ),
                      ),
                  )
                : el("span", {
                      class: "readout-entry dim",
                      text: `the darker the more; ${bound === 0 ? "the bound in use is 0" : "no bound in use is known to compare it with"}`,
                  }),
            el("span", { class: "readout-entry" }, el("span", { class: "swatch swatch-gap" }), "nothing seen"),
            unseen > 0 &&
                el("span", {
                    class: "readout-entry dim",
                    text: `${plural(unseen, "less costly partition")} not shown`,
                }),
        );
    }

    #draw() {
        if (this.#map === null) return;
        const width = this.#frame.clientWidth;
        const rows = this.#rows();
        const { slots } = this.#map;
        if (!width || !slots.length) return;
        const ratio = devicePixelRatio || 1;
        const tall = rows.length * ROW;
        Object.assign(this.#canvas, { width: Math.round(width * ratio), height: Math.round(tall * ratio) });
        this.#canvas.style.height = `${tall}px`;
        const context = this.#canvas.getContext("2d");
        context.fillStyle = hatch(context);
        rows.forEach((_, y) =>
            context.fillRect(0, Math.round(y * ROW * ratio), this.#canvas.width, Math.round((ROW - 2) * ratio)),
        );
        const scale =
            this.#map.bound_ms || Math.max(1, ...rows.flatMap((row) => row.cells.map((cell) => cell?.need_ms ?? 0)));
        const colours = EDGES.map((_, n) => colour(`heat-${n + 1}`));
        const edge = (n) => Math.round(((n * width) / slots.length) * ratio);
        rows.forEach((row, y) => {
            row.cells.forEach((cell, x) => {
                if (cell === null || cell.need_ms === null) return;
                context.fillStyle = colours[EDGES.findIndex((most) => cell.need_ms / scale <= most)];
                context.fillRect(
                    edge(x),
                    Math.round(y * ROW * ratio),
                    edge(x + 1) - edge(x),
                    Math.round((ROW - 2) * ratio),
                );
            });
        });
        this.#tellTimes(width);
    }

    #tellTimes(width) {
        const { slots } = this.#map;
        const step = Math.max(1, Math.ceil((slots.length * 96) / width));
        put(
            this.#times,
            slots.map((us, n) =>
                n % step === 0 && (slots.length - n) * (width / slots.length) > 40
                    ? el("span", {
                          style: { left: `${(n * 100) / slots.length}%` },
                          text: moment(us).replace(/:\d\d$/, ""),
                      })
                    : null,
            ),
        );
    }

    #onPointer(event) {
        const box = this.#canvas.getBoundingClientRect();
        const x = Math.floor(((event.clientX - box.left) / box.width) * this.#map.slots.length);
        const y = Math.floor((event.clientY - box.top) / ROW);
        this.#point(x >= 0 && y >= 0 ? [x, y] : null);
    }

    #onKey(event) {
        const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
        if (!by || this.#map === null) return;
        event.preventDefault();
        event.stopPropagation();
        this.#readout.setAttribute("aria-live", "polite");
        const [x, y] = this.#at ?? [this.#map.slots.length, -1];
        const within = (value, most) => Math.min(Math.max(value, 0), most - 1);
        this.#point([within(x + by[0], this.#map.slots.length), within(y + by[1], this.#rows().length)]);
    }

    #point(at) {
        const rows = this.#map ? this.#rows() : [];
        const row = at && rows[at[1]];
        const cell = this.#frame.querySelector(".heat-cell");
        this.#at = row ? at : null;
        cell.hidden = !row;
        if (!row) {
            say(
                this.#readout,
                rows.length
                    ? "Point at a cell, or use the arrow keys, to read it."
                    : "No partition was seen in this span.",
            );
            return;
        }
        const wide = this.#frame.clientWidth / this.#map.slots.length;
        Object.assign(cell.style, {
            left: `${at[0] * wide}px`,
            top: `${at[1] * ROW}px`,
            width: `${wide}px`,
            height: `${ROW - 2}px`,
        });
        const found = row.cells[at[0]];
        const told =
            found === null || found.need_ms === null
                ? "nothing seen"
                : `need ${duration(found.need_ms)}, ${plural(found.pairs, "row")}`;
        say(this.#readout, `${row.partition} at ${moment(this.#map.slots[at[0]])}: ${told}`);
    }

    #toggleAll() {
        this.#all = !this.#all;
        this.#layOut();
    }

    #toggleTable() {
        const shown = this.#tablePlace.hidden;
        this.#tablePlace.hidden = !shown;
        this.#heat.hidden = this.#legend.hidden = this.#readout.hidden = shown;
        this.#table.setAttribute("aria-pressed", String(shown));
        if (shown) this.#fillTable();
        else this.#draw();
    }

    #fillTable() {
        const columns = [
            "Partition",
            "State",
            "Rows seen",
            "Need",
            "Costs",
            "Without it",
            "Behind",
            "Future-dated",
            "Last seen",
        ];
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
                        columns.map((text, n) => el("th", { scope: "col", class: n > 1 ? "number" : null, text })),
                    ),
                ),
                el(
                    "tbody",
                    {},
                    this.#map.partitions.map((row) => {
                        const known = this.#partitions.get(row.partition);
                        const marks = marksOf(row, known);
                        return el(
                            "tr",
                            {},
                            el("th", { scope: "row", text: row.partition }),
                            el("td", {}, marks.length ? marks.map((mark) => badge(mark.kind, mark.name)) : "active"),
                            [
                                count(known?.pairs),
                                duration(known?.need_ms),
                                duration(known?.costs_ms),
                                duration(known?.without_bound_ms),
                                duration(known?.behind_ms),
                                count(known?.future_rows),
                                moment(known?.last_seen_us),
                            ].map((text) => el("td", { class: "number", text })),
                        );
                    }),
                ),
            ),
        );
    }
}

function marksOf(row, known) {
    const marks = [];
    if (known?.skewed) marks.push({ kind: "bad", name: `skewed, costs ${duration(known.costs_ms)}` });
    const [kind, name] = STATES[known?.state ?? row.state] ?? [];
    if (kind) marks.push({ kind, name });
    if (known?.future) marks.push({ kind: "warn", name: "future-dated" });
    return marks;
}

function sentences(told) {
    return told.partitions
        .filter((one) => one.skewed)
        .toSorted((one, other) => other.costs_ms - one.costs_ms)
        .slice(0, 3)
        .map((one) => el("li", { class: "skew" }, icon("bad"), el("span", { text: sentence(one.text) })));
}
