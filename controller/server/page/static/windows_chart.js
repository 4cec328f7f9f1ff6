// The newest windows of event time as bars: what counts of each, what came late, and what is still expected.

import { get, query } from "./api.js";
import { Card } from "./card.js";
import { el, icon, put, say } from "./dom.js";
import { AXIS_WIDTH, bars, drawLine, drawSign, hatch, RIGHT, sizeText, write } from "./drawing.js";
import { about, between, count, moment, share, target } from "./format.js";
import { colour } from "./theme.js";
import { TimeChart } from "./time_chart.js";
import { named, plural } from "./words.js";

/** @import { StreamStatus, Window, WindowPage } from "api" */
/** @import { Charted, Series } from "./time_chart.js" */
/** @typedef {{from_us: number, end_us: number, rows: number | null, window: Window | null}} Slot No row of it may have come */

/** Bars, the width that each takes at least, and that of a card beside them, in pixels. */
const [FEWEST, MOST, WIDTH, BESIDE] = [8, 30, 18, AXIS_WIDTH + RIGHT + 30];
const MINUTE_US = 60_000_000;

/** @type {Record<Window["outcome"], [string, Parameters<typeof drawSign>[1] | null, string]>} In words, and as a sign. */
const OUTCOMES = {
    Reached: ["complete to", "ok", "ok"],
    NotYet: ["not yet complete to", "open", "ink-soft"],
    Unreachable: ["never complete to", "critical", "critical"],
    NotKnown: ["not known whether complete to", null, ""],
};

/** The card. An answer costs the controller some milliseconds for each bar: it is asked for only while it is seen. */
export class WindowsChart {
    #card = new Card("How complete windows are", "windows");
    node = this.#card.node;
    #path;
    #summary = el("p");
    #silent = el("p", { class: "skew" });
    /** @type {TimeChart<Slot>} */
    #chart;
    /** What that depends on which is shown. */
    #key = "";

    /** @param {string} path */
    constructor(path) {
        this.#path = path;
        this.#chart = new TimeChart(this.#card, {
            height: 210,
            gap: "not known",
            named: { column: "Window", text: ({ end_us: us }) => `until ${moment(us)}` },
            series: [
                {
                    ...bar("expected", { fill: "series-fill", text: expectedText, rows: expectedRows }),
                    ...{ colour: "series-effective", width: 1 },
                },
                bar("late", { fill: "series-late", text: (one) => count(one.late_min), rows: (one) => one.rows }),
                bar("possibly late", {
                    fill: "series-doubt",
                    text: (one) => count(one.late_max - one.late_min),
                    rows: (one) => one.rows - one.late_min,
                }),
                bar("counted", { fill: "series-bound", text: (one) => count(counted(one)), rows: counted }),
                bar("has come", { text: comeText }),
                bar("state", { text: stateText }),
            ],
            yRange: (slots, max) => [0, 1.2 * Math.max(max, ...slots.map(mostRows))],
            yValues: (value) => (Number.isInteger(value) ? about(value) : ""),
            over: draw,
            label: () => `${this.#summary.textContent} ${this.#silent.textContent}`,
        });
        this.#card.body.prepend(this.#summary, this.#silent);
    }

    /**
     * Fetch and show the windows, if there is anything new about them and somebody sees it.
     * @param {StreamStatus} status
     * @param {AbortSignal} signal
     */
    async refresh({ evidence, slo }, signal) {
        const { height, top, bottom, width } = this.node.getBoundingClientRect();
        const limit = Math.min(Math.max(Math.floor((width - BESIDE) / WIDTH), FEWEST), MOST);
        const key = JSON.stringify([evidence.to_us, evidence.batches, slo?.generation, limit]);
        // Once it is there, it waits until somebody scrolls to it. Where no window was known, one may have come.
        const seen = height > 0 ? this.#key === "" || (bottom > 0 && top < innerHeight) : this.node.hidden;
        if (!seen || key === this.#key) return;
        /** @type {WindowPage} */
        const { windows } = await get(query(`${this.#path}/windows`, { limit }), signal);
        this.#key = key;
        this.#card.loaded();
        this.node.hidden = windows.length === 0;
        if (this.node.hidden) return;
        const charted = chartedOf(windows, limit);
        say(this.#summary, summaryOf(charted.slots));
        const silent = silentIn(windowsOf(charted.slots));
        this.#silent.hidden = silent.length === 0;
        put(this.#silent, icon("warning"), el("span", { text: `Silent partitions: ${named(silent)}.` }));
        this.#chart.show(charted);
    }

    end() {
        this.#chart.end();
    }
}

/**
 * @param {string} name
 * @param {{fill?: string, text: (window: Window) => string, rows?: (window: Window) => number | null}} options Rows say
 * up to where the bar reaches; what is later lies over it.
 * @returns {Series<Slot>}
 */
function bar(name, { fill, text, rows = () => null }) {
    return {
        name,
        ...(fill && { colour: fill, fill, width: 0, path: bars }),
        value: ({ window }) => window && rows(window),
        text: ({ window }) => (window ? text(window) : ""),
    };
}

/** @param {Window} window */
function counted({ rows, late_max: late }) {
    return rows - late;
}

/** @param {Window} window */
function expectedRows({ estimate }) {
    return estimate && estimate.expected;
}

/**
 * Return the newest windows side by side.
 * @param {Window[]} windows The newest first.
 * @param {number} limit
 */
function chartedOf(windows, limit) {
    const ends = windows.map((window) => window.end_us);
    const steps = ends.slice(1).map((end, n) => ends[n] - end);
    const slotUs = steps.length ? Math.min(...steps) : MINUTE_US;
    const number = Math.min(limit, (ends[0] - ends[ends.length - 1]) / slotUs + 1);
    const fromUs = ends[0] - number * slotUs;
    const slots = Array.from({ length: number }, (_, n) => {
        const endUs = fromUs + (n + 1) * slotUs;
        const window = windows.find((one) => one.end_us === endUs) ?? null;
        return { from_us: endUs - slotUs, end_us: endUs, rows: window && window.rows, window };
    });
    return { from_us: fromUs, to_us: ends[0], slot_us: slotUs, slots };
}

/** @param {Slot[]} slots */
function windowsOf(slots) {
    return slots.flatMap(({ window }) => window ?? []);
}

/** @param {Slot} slot */
function mostRows({ window }) {
    return window?.estimate?.expected_max ?? 4;
}

/** @param {Window} window */
function expectedText({ estimate, unknown }) {
    if (!estimate) return `not known: ${unknown}`;
    const { expected, expected_min: min, expected_max: max } = estimate;
    return min === max ? count(expected) : `${count(expected)} (${between({ min, max }, count)})`;
}

/** @param {Window} window */
function comeText({ estimate }) {
    if (!estimate) return "not known";
    const [likely, least] = [share(estimate.came_ppm), share(estimate.came_min_ppm)];
    return likely === least ? likely : `${likely} (at least ${least})`;
}

/** @param {Window} window */
function stateText(window) {
    const settled = window.estimate?.settled ? ", settled" : "";
    const silent = silentIn([window]);
    const outcome = `${OUTCOMES[window.outcome][0]} ${target(window.asked_ppm)}`;
    return `${window.state.toLowerCase()}${settled}, ${outcome}${silent.length ? `; silent: ${named(silent)}` : ""}`;
}

/**
 * Return the partitions that are silent, and what the windows lack of each.
 * @param {Window[]} windows
 */
function silentIn(windows) {
    /** @type {Map<string, [number, number]>} */
    const found = new Map();
    for (const { estimate } of windows) {
        for (const { partition, newest_us: us, share_ppm: ppm } of estimate?.silent ?? []) {
            const rows = ((estimate?.expected ?? 0) * ppm) / 1e6;
            found.set(partition, [us, rows + (found.get(partition)?.[1] ?? 0)]);
        }
    }
    const most = [...found].toSorted(([, [, one]], [, [, other]]) => other - one);
    return most.map(([name, [us, rows]]) => `${name} since ${moment(us)} (about ${plural(Math.round(rows), "row")})`);
}

/**
 * Return up to where windows are closed, and up to where all are settled whose rows in the end are known.
 * @param {Window[]} windows The oldest first.
 */
function edgesOf(windows) {
    const unsettled = windows.findIndex(({ estimate }) => estimate && !estimate.settled);
    const before = unsettled < 0 ? windows : windows.slice(0, unsettled);
    return {
        settled: before.findLast(({ estimate }) => estimate)?.end_us ?? null,
        closed: windows.findLast(({ state }) => state === "Closed")?.end_us ?? null,
    };
}

/** @param {Slot[]} slots */
function summaryOf(slots) {
    const windows = windowsOf(slots);
    const { settled, closed } = edgesOf(windows);
    /** @type {(outcome: Window["outcome"]) => number} */
    const number = (outcome) => windows.filter((one) => one.outcome === outcome).length;
    const unknown = slots.length - windows.length + number("NotKnown");
    const why = windows.findLast((one) => one.unknown)?.unknown ?? "no row has come";
    return [
        `${number("Reached")} of ${plural(slots.length, "window")} complete to ${target(windows[0].asked_ppm)}`,
        number("Unreachable") && `, ${number("Unreachable")} never will be`,
        unknown && `, ${unknown} not known (${why})`,
        settled && `; settled until ${moment(settled)}`,
        closed && `; closed until ${moment(closed)}`,
        ".",
    ]
        .filter(Boolean)
        .join("");
}

/**
 * Draw what bars cannot: intervals, signs, what is not known, and up to where windows are settled and closed.
 * @param {uPlot} plot
 * @param {Charted<Slot>} charted
 */
function draw(plot, { slots, slot_us: slotUs }) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    /** @type {(us: number) => number} */
    const x = (us) => plot.valToPos(us / 1e6, "x", true);
    /** @type {(rows: number) => number} */
    const y = (rows) => plot.valToPos(rows, "y", true);
    const half = Math.min(0.45 * (x(slotUs) - x(0)), 30 * ratio);
    ctx.save();
    sizeText(ctx);
    ctx.lineWidth = 1.5 * ratio;
    for (const { end_us: endUs, window } of slots) {
        if (window === null) continue;
        const middle = x(endUs - slotUs / 2);
        const { estimate, late_min: late, late_max: doubt, outcome, rows } = window;
        if (doubt > 0) {
            // However few they are.
            ctx.fillStyle = colour(late > 0 ? "series-late" : "series-doubt");
            ctx.fillRect(middle - half, y(rows), 2 * half, 2 * ratio);
        }
        ctx.fillStyle = hatch(ctx);
        ctx.strokeStyle = colour("ink");
        if (estimate === null) ctx.fillRect(middle - half, bbox.top, 2 * half, y(rows) - bbox.top);
        else if (estimate.expected_min < estimate.expected_max) {
            const [low, high] = [y(estimate.expected_min), y(estimate.expected_max)];
            const cap = `m${-3 * ratio} 0h${6 * ratio}`;
            ctx.stroke(new Path2D(`M${middle} ${low}V${high}${cap}M${middle} ${low}${cap}`));
        }
        const [, sign, name] = OUTCOMES[outcome];
        if (sign) drawSign(ctx, sign, colour(name), middle, bbox.top + 10 * ratio);
    }
    const { settled, closed } = edgesOf(windowsOf(slots));
    ctx.textBaseline = "bottom";
    /** @type {[number | null, string, string, string][]} */
    const edges = [
        [settled, "ok", "settled", "not settled"],
        [closed, "series-bound", "closed", "open"],
    ];
    const shown = edges.flatMap(([us, ...names]) => (us === null ? [] : [{ at: x(us), names }]));
    shown.sort((one, other) => one.at - other.at);
    // Their names stand away from each other.
    for (const [n, { at, names }] of shown.entries()) {
        ctx.strokeStyle = ctx.fillStyle = colour(names[0]);
        drawLine(plot, at, names[0] === "ok" ? [] : [5, 3]);
        ctx.textAlign = n ? "left" : "right";
        write(ctx, names[n + 1], at + (n ? 4 : -4) * ratio, bbox.top);
    }
    ctx.restore();
}
