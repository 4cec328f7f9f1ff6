// The plots of the curve: admitted rows, latency and state by bound, one below the other.

import { boundTicks, lossHeight, lossTicks, middleHeight, shareAtHeight, topHeight } from "./curve_scales.js";
import { el } from "./dom.js";
import { AXIS_WIDTH, axis, drawLine, durationSteps, FONT, hatch, sizeText, write } from "./drawing.js";
import { about, duration, target } from "./format.js";
import { colour } from "./theme.js";

/** @import { PartitionCurve, StreamStatus } from "api" */
/** @import { BoundScale, Curve } from "./curve_scales.js" */
/** @typedef {{name: string, withoutMs: number | null, points: PartitionCurve["points"]}} PartitionShown */

/**
 * @typedef {object} Panel
 * @property {string} label
 * @property {number} height
 * @property {string} stroke
 * @property {(number | null)[]} values
 * @property {(number | null)[]} [low] Lower end of what the values may be.
 * @property {(number | null)[]} [high]
 * @property {(values: number[]) => [number, number]} range
 * @property {(value: number) => string} text
 * @property {{at: number, text: string} | null} limit
 * @property {(number | null)[]} [beside] The same of one partition.
 * @property {number[]} [incrs]
 * @property {(plot: uPlot) => number[]} [splits]
 */

const RIGHT = 14;
/** Room above the first plot for the names of the marks. */
const HEAD = 38;
/** Room above each other plot for its name, and for the handle of the bound to try. */
const GAP = 26;
const FOOT = 48;
/** By how much the name of a plot reaches into it. */
const BESIDE_LABEL = 16;
/** Width from which scales are described. */
const ROOMY = 400;
const TITLE_ROWS = [0, 1, 2];

/** The plots; `node` holds them. */
export class CurvePlots {
    node = el("div");
    /** @type {uPlot[]} */
    #plots = [];
    /** @type {Curve | null} */
    #curve = null;
    /** @type {BoundScale} */
    #scale = { maxMs: 0, bendMs: 1 };
    /** @type {PartitionShown | null} */
    #partition = null;
    /** @type {StreamStatus["provisional_bound"]} */
    #provisional = null;

    /**
     * Draw a curve anew.
     * @param {Curve} curve
     * @param {BoundScale} scale
     * @param {PartitionShown | null} partition One whose own curve lies over it.
     * @param {StreamStatus["provisional_bound"]} provisional
     */
    build(curve, scale, partition, provisional) {
        this.end();
        this.#curve = curve;
        this.#scale = scale;
        this.#partition = partition;
        this.#provisional = provisional;
        if (!curve.points.length) return;
        const panels = panelsOf(curve, partition).filter((panel) => panel.values.some((value) => value !== null));
        this.#plots = panels.map((panel, n) => this.#plot(curve, panel, n === 0, n === panels.length - 1));
    }

    /** Fill the width. */
    fit() {
        const width = this.node.clientWidth;
        for (const plot of this.#plots) {
            if (width > 0 && plot.width !== width) plot.setSize({ width, height: plot.height });
        }
    }

    end() {
        for (const plot of this.#plots) plot.destroy();
        this.#plots = [];
    }

    /**
     * Return where a bound is, in pixels from the left; null before anything is drawn.
     * @param {number} ms
     */
    toPixels(ms) {
        const [plot] = this.#plots;
        return plot ? AXIS_WIDTH + plot.valToPos(Math.min(ms, this.#scale.maxMs), "x") : null;
    }

    /**
     * Return the bound at so many pixels from the left of the screen.
     * @param {number} clientX
     */
    toMs(clientX) {
        const [plot] = this.#plots;
        const left = clientX - this.node.getBoundingClientRect().left - AXIS_WIDTH;
        return plot ? plot.posToVal(Math.min(Math.max(left, 0), plot.over.clientWidth), "x") : 0;
    }

    /**
     * @param {Curve} curve
     * @param {Panel} panel
     * @param {boolean} first
     * @param {boolean} last
     */
    #plot({ points }, panel, first, last) {
        const { low = [], high = [], beside } = panel;
        const banded = low.some((value, n) => value !== high[n]);
        /** @type {uPlot.AlignedData} */
        const data = [
            points.map((point) => point.bound_ms),
            // What is drawn later lies on top: the line over its interval.
            ...(banded ? [high, low] : []),
            panel.values,
            ...(beside ? [beside] : []),
        ];
        const line = {
            stroke: colour(panel.stroke),
            width: 2.2,
            points: { show: points.length < 40, size: 5, fill: colour(panel.stroke) },
        };
        const besideLine = {
            stroke: colour("series-need"),
            width: 2.2,
            dash: [6, 3],
            points: { show: false },
            spanGaps: true,
        };
        const edge = { width: 0, points: { show: false } };
        const { maxMs, bendMs } = this.#scale;
        return new uPlot(
            {
                width: Math.max(this.node.clientWidth, 240),
                height: panel.height + (first ? HEAD : 0) + (last ? FOOT : 0),
                padding: [first ? HEAD + 8 : GAP, RIGHT, last ? 0 : 9, 0],
                legend: { show: false },
                cursor: { show: false },
                scales: {
                    x: { time: false, distr: 4, asinh: bendMs, range: () => [0, maxMs] },
                    y: {
                        range: () =>
                            panel.range([...panel.values, ...(beside ?? [])].filter((value) => value !== null)),
                    },
                },
                axes: [
                    {
                        ...axis(),
                        size: last ? 28 : 0,
                        ...(last
                            ? {
                                  label: scaleName(bendMs, this.node.clientWidth),
                                  labelSize: 18,
                                  labelGap: 0,
                                  labelFont: FONT,
                              }
                            : {}),
                        show: true,
                        splits: (plot) => boundTicks(maxMs, (ms) => plot.valToPos(ms, "x")),
                        filter: (_plot, splits) => splits,
                        values: (_plot, splits) => splits.map((ms) => (last ? duration(ms) : "")),
                        ticks: { show: last, stroke: colour("line"), size: 5 },
                    },
                    {
                        ...axis(),
                        size: AXIS_WIDTH,
                        values: (_plot, splits) => splits.map(panel.text),
                        ...(panel.splits ? { splits: panel.splits, filter: (_plot, splits) => splits } : {}),
                        ...(panel.incrs ? { incrs: panel.incrs } : {}),
                        space: 30,
                    },
                ],
                series: [{}, ...(banded ? [edge, edge] : []), line, ...(beside ? [besideLine] : [])],
                bands: banded ? [{ series: [1, 2], fill: colour("accent-soft") }] : [],
                hooks: {
                    drawClear: [
                        (plot) => {
                            this.#drawFeasible(plot);
                            this.#drawProvisional(plot);
                        },
                    ],
                    draw: [(plot) => this.#drawOver(plot, panel, first)],
                },
            },
            data,
            this.node,
        );
    }

    /** @param {uPlot} plot */
    #drawFeasible(plot) {
        const fits = this.#curve?.points.filter((point) => point.meets_all) ?? [];
        // Where every bound fits, the area would say nothing.
        if (!fits.length || fits.length === this.#curve?.points.length) return;
        const { ctx, bbox } = plot;
        const left = plot.valToPos(fits[0].bound_ms, "x", true);
        const right = plot.valToPos(fits[fits.length - 1].bound_ms, "x", true);
        ctx.save();
        ctx.fillStyle = colour("feasible");
        ctx.fillRect(left, bbox.top, Math.max(right - left, 2), bbox.height);
        ctx.restore();
    }

    /**
     * Hatch where the bound may lie that the SLO asks for; without an upper end to the right edge.
     * @param {uPlot} plot
     */
    #drawProvisional(plot) {
        if (this.#provisional === null) return;
        const { min_bound_ms: least, max_bound_ms: most } = this.#provisional;
        const { ctx, bbox } = plot;
        const { maxMs } = this.#scale;
        const [left, right] = [least ?? 0, most ?? maxMs].map((ms) => plot.valToPos(Math.min(ms, maxMs), "x", true));
        ctx.save();
        ctx.fillStyle = hatch(ctx);
        ctx.fillRect(left, bbox.top, Math.max(right - left, 2), bbox.height);
        ctx.restore();
    }

    /**
     * @param {uPlot} plot
     * @param {Panel} panel
     * @param {boolean} first
     */
    #drawOver(plot, panel, first) {
        const { ctx, bbox } = plot;
        const ratio = devicePixelRatio;
        ctx.save();
        sizeText(ctx);
        const taken = this.#marks().map(({ ms }) => plot.valToPos(ms, "x", true));
        if (panel.limit) drawLimit(plot, panel.limit, panel.values, taken);
        ctx.textAlign = "left";
        ctx.textBaseline = "bottom";
        ctx.fillStyle = colour("ink-soft");
        // Over the axis at the left, where nothing else is written.
        ctx.fillText(panel.label, ratio, bbox.top - 10 * ratio);
        this.#drawMarks(plot, first);
        ctx.restore();
    }

    /**
     * @param {uPlot} plot
     * @param {boolean} titled
     */
    #drawMarks(plot, titled) {
        const { ctx, bbox } = plot;
        const ratio = devicePixelRatio;
        /** @type {{row: number, left: number, right: number}[]} */
        const taken = [];
        const marks = this.#marks();
        for (const [n, mark] of marks.entries()) {
            const x = plot.valToPos(mark.ms, "x", true);
            ctx.strokeStyle = ctx.fillStyle = colour(mark.colour);
            ctx.lineWidth = 1.6 * ratio;
            drawLine(plot, x, mark.dash);
            // Marks that read the same share a title.
            const same = marks.filter((one) => duration(one.ms) === duration(mark.ms));
            if (!titled || marks.indexOf(same[0]) !== n) continue;
            const text = `${same.map((one) => one.name).join(", ")} ${duration(mark.ms)}`;
            const width = ctx.measureText(text).width;
            const least = bbox.left + BESIDE_LABEL * ratio;
            const left = Math.min(Math.max(x - width / 2, least), bbox.left + bbox.width - width);
            const right = left + width;
            const gap = 8 * ratio;
            const row = TITLE_ROWS.find(
                (one) =>
                    !taken.some((other) => other.row === one && left < other.right + gap && right > other.left - gap),
            );
            if (row === undefined) continue;
            taken.push({ row, left, right });
            ctx.textAlign = "left";
            ctx.textBaseline = "bottom";
            ctx.fillText(text, left, bbox.top - (3 + row * 13) * ratio);
        }
    }

    #marks() {
        if (this.#curve === null) return [];
        const { operating, recommended_bound_ms: recommended } = this.#curve;
        // Once a bound is recommended, one number leads: the estimate is only hatched.
        const provisional = recommended === null ? (this.#provisional?.bound_ms ?? null) : null;
        return [
            { name: "without it", ms: this.#partition?.withoutMs ?? null, colour: "series-need", dash: [2, 3] },
            { name: operating.is_published ? "published" : "in use", ms: operating.bound_ms, colour: "ink", dash: [] },
            { name: "recommended", ms: recommended, colour: "accent", dash: [6, 3] },
            { name: "provisional", ms: provisional, colour: "accent", dash: [2, 3] },
            { name: "effective", ms: operating.effective_bound_ms, colour: "series-effective", dash: [2, 3] },
        ].flatMap(({ ms, ...mark }) => (ms !== null && ms >= 0 && ms <= this.#scale.maxMs ? [{ ...mark, ms }] : []));
    }
}

/**
 * Name the axis of bounds and its scale.
 * @param {number} bendMs
 * @param {number} width
 */
function scaleName(bendMs, width) {
    if (width < ROOMY) return "bound (logarithmic scale)";
    return `bound (scale: linear up to about ${duration(Number(bendMs.toPrecision(1)))}, then logarithmic)`;
}

/**
 * @param {Curve} curve
 * @param {PartitionShown | null} partition
 * @returns {Panel[]}
 */
function panelsOf({ points, target_ppm: targetPpm, latency_cap_ms: latencyCap, state_cap_rows: stateCap }, partition) {
    const top = topHeight(targetPpm);
    const own = new Map(partition?.points.map((point) => [point.bound_ms, point.completeness_ppm]));
    const targetHeight = lossHeight(targetPpm, top);
    return [
        {
            label: "rows admitted",
            height: 178,
            stroke: "series-curve",
            values: points.map((point) => middleHeight(point, top)),
            low: points.map((point) => lossHeight(point.completeness_min_ppm ?? point.completeness_ppm, top)),
            high: points.map((point) => lossHeight(point.completeness_max_ppm ?? point.completeness_ppm, top)),
            ...(partition && { beside: points.map((point) => lossHeight(own.get(point.bound_ms), top)) }),
            range: (values) => [Math.min(Math.floor(Math.min(...values) * 10) / 10, 1), top],
            splits: ({ scales, bbox }) =>
                lossTicks({ bottom: scales.y.min ?? 0, top, pixels: bbox.height / devicePixelRatio }, targetPpm),
            text: (value) => `${value >= top - 1e-6 ? "≥ " : ""}${target(shareAtHeight(value))}`,
            limit: targetHeight === null ? null : { at: targetHeight, text: `target ${target(targetPpm)}` },
        },
        {
            label: "mean latency",
            height: 110,
            stroke: "series-curve",
            values: points.map((point) => point.latency_wall_ms),
            range: (values) => [0, Math.max(...values, latencyCap ?? 0, 1) * 1.12],
            text: duration,
            incrs: durationSteps.yIncrements,
            limit: latencyCap === null ? null : { at: latencyCap, text: `cap ${duration(latencyCap)}` },
        },
        {
            label: "rows of state",
            height: 98,
            stroke: "series-curve",
            values: points.map((point) => point.state_rows),
            range: (values) => [0, Math.max(...values, stateCap ?? 0, 1) * 1.12],
            text: about,
            limit: stateCap === null ? null : { at: stateCap, text: `cap ${about(stateCap)}` },
        },
    ];
}

/**
 * Draw a limit with its name, as far left as neither the curve nor a line crosses it.
 * @param {uPlot} plot
 * @param {{at: number, text: string}} limit
 * @param {(number | null)[]} values
 * @param {number[]} taken Where lines down the plot are, in pixels.
 */
function drawLimit(plot, limit, values, taken) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const y = plot.valToPos(limit.at, "y", true);
    const atTop = y - bbox.top < 16 * ratio;
    ctx.strokeStyle = ctx.fillStyle = colour("limit");
    ctx.lineWidth = 1.4 * ratio;
    ctx.setLineDash([7 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.setLineDash([]);
    const width = ctx.measureText(limit.text).width + 12 * ratio;
    const near = values.flatMap((value, n) =>
        value !== null && Math.abs(plot.valToPos(value, "y", true) - y) < 20 * ratio
            ? [plot.valToPos(plot.data[0][n], "x", true)]
            : [],
    );
    const places = [0, 0.25, 0.5, 0.75, 1].map((part) => bbox.left + part * (bbox.width - width));
    const free = places.find((left) => ![...near, ...taken].some((x) => x > left && x < left + width));
    ctx.textAlign = "left";
    ctx.textBaseline = atTop ? "top" : "bottom";
    write(ctx, limit.text, (free ?? places[0]) + 6 * ratio, y + (atTop ? 3 : -3) * ratio);
}
