// What all charts draw alike: axes, hatched gaps and marks.

import { el, SHAPES } from "./dom.js";
import { DURATIONS_MS, day, duration } from "./format.js";
import { colour } from "./theme.js";

/** Width of the axis at the left, in pixels: all charts of a column begin at the same place. */
export const AXIS_WIDTH = 78;
/** Width without anything at the right of the charts over time, in pixels. */
export const RIGHT = 24;
/** The charts of one span share their cursor under this name. */
export const TIME_CURSOR = "time";
export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const DAY_S = 86_400;

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

/** An axis of durations: its steps and their texts. */
export const durationSteps = {
    yIncrements: DURATIONS_MS,
    yValues: (/** @type {number} */ ms) => duration(ms),
};

/**
 * An axis of time: the day stands under the first tick of each day.
 * @returns {uPlot.Axis}
 */
export function timeAxis() {
    return {
        ...axis(),
        size: 42,
        space: 74,
        values: (_plot, splits, _index, _space, step) => {
            /** @type {string | null} */
            let before = null;
            return splits.map((seconds) => {
                const at = new Date(seconds * 1_000);
                const today = day(at);
                if (step >= DAY_S) return today;
                const time = at.toTimeString().slice(0, step < 60 ? 8 : 5);
                const text = today === before ? time : `${time}\n${today}`;
                before = today;
                return text;
            });
        },
    };
}

/**
 * Return a sample of how a series is drawn.
 * @param {{colour?: string, dash?: number[], fill?: string, bandFill?: string, path?: unknown}} series
 */
export function swatch({ colour: name, dash, fill, bandFill, path }) {
    return el("span", {
        class: `swatch ${dash ? "swatch-dashed" : ""} ${path || fill ? "swatch-area" : ""}`,
        style: { "--swatch": `var(--${fill ?? bandFill ?? name})` },
    });
}

/** The bars of a chart over time. @type {(plot: typeof uPlot) => uPlot.Series.PathBuilder | undefined} */
export const bars = (plot) => plot.paths.bars?.({ size: [0.9, 60, 1], align: 0 });

/**
 * Draw the sign that `icon` makes an element of.
 * @param {CanvasRenderingContext2D} ctx
 * @param {keyof SHAPES} kind
 * @param {string} stroke
 * @param {number} x Its middle.
 * @param {number} y
 */
export function drawSign(ctx, kind, stroke, x, y) {
    const scale = 0.8 * devicePixelRatio;
    ctx.save();
    ctx.translate(x - 8 * scale, y - 8 * scale);
    ctx.scale(scale, scale);
    ctx.strokeStyle = stroke;
    ctx.lineWidth = 1.6;
    for (const outline of SHAPES[kind]) ctx.stroke(new Path2D(outline));
    ctx.restore();
}

/**
 * Return the context of a canvas.
 * @param {HTMLCanvasElement} canvas
 */
export function contextOf(canvas) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("this browser draws no canvas");
    return context;
}

/**
 * Return a pattern of slanted lines, which means: unknown.
 * @param {CanvasRenderingContext2D} context
 */
export function hatch(context) {
    const tile = document.createElement("canvas");
    const size = Math.round(8 * devicePixelRatio);
    tile.width = tile.height = size;
    const ink = contextOf(tile);
    ink.strokeStyle = colour("hatch");
    ink.lineWidth = devicePixelRatio * 1.2;
    for (const shift of [-size, 0, size]) {
        ink.beginPath();
        ink.moveTo(shift, size);
        ink.lineTo(shift + size, 0);
        ink.stroke();
    }
    return context.createPattern(tile, "repeat") ?? colour("hatch");
}

/**
 * Hatch the slots without a report.
 * @param {uPlot} plot
 * @param {{from_us: number, rows: number | null}[]} slots
 * @param {number} slotUs Width of a slot.
 */
export function hatchGaps(plot, slots, slotUs) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = hatch(ctx);
    /** @type {number | null} */
    let start = null;
    slots.forEach((slot, n) => {
        if (slot.rows === null) start ??= slot.from_us;
        const ends = slot.rows !== null || n === slots.length - 1;
        if (start === null || !ends) return;
        const end = slot.rows === null ? slot.from_us + slotUs : slot.from_us;
        const left = Math.max(plot.valToPos(start / 1e6, "x", true), bbox.left);
        const right = Math.min(plot.valToPos(end / 1e6, "x", true), bbox.left + bbox.width);
        if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
        start = null;
    });
    ctx.restore();
}

/**
 * Draw a line down the plot at `seconds`, with a mark at its top.
 * @param {uPlot} plot
 * @param {number} seconds
 * @param {{stroke: string, dash?: number[], shape?: "down" | "cross" | "none", line?: boolean}} options
 */
export function drawMark(plot, seconds, { stroke, dash = [], shape = "down", line = true }) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const x = Math.round(plot.valToPos(seconds, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = stroke;
    ctx.lineWidth = ratio;
    if (line) drawLine(plot, x, dash);
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

/**
 * Draw a line down the plot at the pixel `x`, in the context's colour and width.
 * @param {uPlot} plot
 * @param {number} x
 * @param {number[]} dash
 */
export function drawLine({ ctx, bbox }, x, dash) {
    ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
}

/**
 * Take the charts' font for what is written next.
 * @param {CanvasRenderingContext2D} ctx
 */
export function sizeText(ctx) {
    ctx.font = FONT.replace("12px", `${12 * devicePixelRatio}px`);
}

/**
 * Write with a rim in the card's colour, so that a line behind the words leaves them readable.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} x
 * @param {number} y
 */
export function write(ctx, text, x, y) {
    ctx.save();
    ctx.strokeStyle = colour("card");
    ctx.lineWidth = 4 * devicePixelRatio;
    ctx.lineJoin = "round";
    ctx.strokeText(text, x, y);
    ctx.restore();
    ctx.fillText(text, x, y);
}

/**
 * Put the cursor of a chart over time, and of all that share it, at a place; null takes it away.
 * @param {uPlot} plot
 * @param {number | null} left Pixels.
 */
export function moveCursor(plot, left) {
    // The declared type lacks the last argument, which tells the other charts.
    const move = /** @type {(at: {left: number, top: number}, fire: boolean, publish: boolean) => void} */ (
        plot.setCursor
    );
    move(left === null ? { left: -10, top: -10 } : { left, top: 0 }, true, true);
}
