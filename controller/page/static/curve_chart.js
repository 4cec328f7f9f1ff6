// What each bound keeps and costs, and a bound to drag: what would happen under it is asked of the controller.

import { Away, Refused, get, query } from "./api.js";
import { AXIS_WIDTH, Card, axis, durationSteps } from "./chart.js";
import { badge, el, put, say } from "./dom.js";
import { about, bytes, count, duration, exactDuration, latency, parseDuration, share, shares, target } from "./format.js";
import { colour, onTheme } from "./theme.js";
import { latencyUnknown, sentence } from "./words.js";

const { uPlot } = globalThis;
const ASK_AFTER_MS = 150;
const STEPS = 100;
const LEFT = AXIS_WIDTH;
const RIGHT = 14;
const SHARES_PPM = [
    0, 500_000, 800_000, 900_000, 950_000, 980_000, 990_000, 995_000, 998_000, 999_000, 999_500, 999_900, 999_950,
    999_990, 999_999,
];
const PRIORITY_PPM = new Set([0, 900_000, 990_000, 999_000, 999_900, 999_990]);

/** The card. */
export class CurveChart {
    #card = new Card("What each bound keeps and costs", { name: "curve" });
    #stream;
    #path;
    #curve = null;
    #plots = [];
    #place = el("div", { class: "curve-plots" });
    #panels = el("div");
    #legend = el("div", { class: "readout" });
    #knob = el("span", { class: "knob", "aria-hidden": "true" });
    #slider;
    #field;
    #fieldTold = el("span", { class: "error" });
    #told = el("div", { class: "preview", "aria-live": "polite" });
    #bound = null;
    #most = 0;
    #bend = 1;
    #held = null;
    #touched = false;
    #dragged = false;
    #timer = null;
    #asking = null;
    #asked = null;
    #resize = new ResizeObserver(() => this.#fit());
    #endTheme;

    constructor(path) {
        this.#path = path;
        this.#slider = el(
            "div",
            {
                class: "slider",
                role: "slider",
                tabindex: "0",
                "aria-label": "Bound to try",
                "aria-orientation": "horizontal",
                "aria-valuemin": "0",
                on: {
                    keydown: (event) => this.#onKey(event),
                    pointerdown: (event) => this.#onDown(event),
                    pointermove: (event) => this.#onMove(event),
                    lostpointercapture: () => this.#onLetGo(),
                },
            },
            this.#knob,
        );
        this.#field = el("input", {
            id: "bound-to-try",
            type: "text",
            class: "bound-field",
            autocomplete: "off",
            spellcheck: "false",
            "aria-describedby": "bound-to-try-told",
            on: { change: () => this.#onField() },
        });
        this.#fieldTold.id = "bound-to-try-told";
        put(
            this.#card.body,
            this.#legend,
            this.#place,
            el(
                "div",
                { class: "try" },
                el("label", { for: "bound-to-try", text: "If the bound were" }),
                this.#field,
                this.#fieldTold,
                el("span", { class: "hint", text: "drag the line, use the arrow keys on it, or write a duration" }),
            ),
            this.#told,
        );
        put(this.#place, this.#panels, this.#slider);
        this.#resize.observe(this.#place);
        this.#endTheme = onTheme(() => this.#build());
        this.node = this.#card.node;
    }

    /** Show a curve. */
    show(curve) {
        if (this.#dragged) {
            // Not under the hand that drags; when it lets go.
            this.#held = curve;
            return;
        }
        this.#card.loaded();
        this.#curve = curve;
        this.#fitScale();
        if (!this.#touched) this.#bound = curve.recommended_bound_ms ?? curve.operating.bound_ms ?? this.#most / 4;
        this.#slider.setAttribute("aria-valuemax", String(this.#most));
        this.#slider.hidden = curve.points.length === 0;
        this.#build();
        this.#tellLegend();
        if (curve.points.length === 0)
            put(
                this.#told,
                el("p", { class: "empty", text: "No curve yet: nothing was reported over the SLO's horizon." }),
            );
        else this.#ask(0);
    }

    end() {
        clearTimeout(this.#timer);
        this.#asking?.abort();
        this.#resize.disconnect();
        this.#endTheme();
        for (const plot of this.#plots) plot.destroy();
    }

    // The scale: linear near 0, and logarithmic beyond the middle of what matters, so that 1 s and 1 h both have a place.
    // Figures that move a little must not move it under somebody's hand. What is effective has no say: just after a
    // restart it can be anything.
    #fitScale() {
        const { operating, recommended_bound_ms: recommended, points } = this.#curve;
        const most = Math.max(points.at(-1)?.bound_ms ?? 0, operating.bound_ms ?? 0, recommended ?? 0, 1_000);
        const middle = recommended ?? operating.bound_ms ?? points[Math.floor(points.length / 2)]?.bound_ms ?? 1_000;
        const bend = Math.max(middle / 2, most / 50);
        const near = (one, other) => one <= 2 * other && other <= 2 * one;
        if (most * 1.02 <= this.#most && near(most, this.#most) && near(bend, this.#bend)) return;
        this.#most = Math.ceil(most * 1.15);
        this.#bend = bend;
    }

    #build() {
        for (const plot of this.#plots) plot.destroy();
        this.#plots = [];
        const curve = this.#curve;
        if (curve === null || curve.points.length === 0) return;
        const top = this.#topLoss();
        const panels = [
            {
                name: "kept",
                height: 214,
                values: curve.points.map((point) => height(middleOf(point), top)),
                low: curve.points.map((point) => height(point.completeness_min_ppm ?? point.completeness_ppm, top)),
                high: curve.points.map((point) => height(point.completeness_max_ppm ?? point.completeness_ppm, top)),
                stroke: "series-bound",
                range: (values) => [
                    Math.min(Math.floor(Math.min(...values.filter((one) => one !== null)) * 10) / 10, 1),
                    top,
                ],
                splits: (plot) => lossTicks(plot, top, curve.target_ppm),
                text: (value) => `${value >= top - 1e-6 ? "≥ " : ""}${target(Math.round(1e6 - 10 ** (6 - value)))}`,
                limit:
                    curve.target_ppm === null
                        ? null
                        : { at: height(curve.target_ppm, top), text: `target ${target(curve.target_ppm)}` },
                label: "kept",
            },
            {
                name: "latency",
                height: 128,
                values: curve.points.map((point) => point.latency_wall_ms),
                stroke: "series-target",
                range: (values) => [0, Math.max(...values, curve.latency_cap_ms ?? 0, 1) * 1.12],
                text: duration,
                incrs: durationSteps.yIncrements,
                limit:
                    curve.latency_cap_ms === null
                        ? null
                        : { at: curve.latency_cap_ms, text: `cap ${duration(curve.latency_cap_ms)}` },
                label: "mean latency",
            },
            {
                name: "state",
                height: 112,
                values: curve.points.map((point) => point.state_rows),
                stroke: "series-state",
                range: (values) => [0, Math.max(...values, curve.state_cap_rows ?? 0, 1) * 1.12],
                text: about,
                limit:
                    curve.state_cap_rows === null
                        ? null
                        : { at: curve.state_cap_rows, text: `cap ${about(curve.state_cap_rows)}` },
                label: "rows of state",
            },
        ].filter((panel) => panel.values.some((value) => value !== null));
        panels.forEach((panel, n) => this.#plots.push(this.#panel(panel, n === 0, n === panels.length - 1)));
        // The plots know their scales only after they have been drawn.
        queueMicrotask(() => this.#put());
    }

    #panel(panel, first, last) {
        const { points } = this.#curve;
        const banded = panel.low?.some((value, n) => value !== panel.high[n]);
        // What is drawn later lies on top: the line over its interval.
        const data = [points.map((point) => point.bound_ms), ...(banded ? [panel.high, panel.low] : []), panel.values];
        const line = {
            stroke: colour(panel.stroke),
            width: 2.2,
            points: { show: points.length < 40, size: 5, fill: colour(panel.stroke) },
        };
        const edge = { stroke: null, width: 0, points: { show: false } };
        return new uPlot(
            {
                width: Math.max(this.#place.clientWidth, 240),
                height: panel.height + (first ? 38 : 0) + (last ? 30 : 0),
                padding: [first ? 46 : 8, RIGHT, last ? 0 : 9, 0],
                legend: { show: false },
                cursor: { show: false },
                scales: {
                    x: { time: false, distr: 4, asinh: this.#bend, range: () => [0, this.#most] },
                    y: { range: () => panel.range(panel.values.filter((value) => value !== null)) },
                },
                axes: [
                    {
                        ...axis(),
                        size: last ? 32 : 0,
                        show: true,
                        splits: (plot) => boundTicks(plot, this.#most),
                        filter: (plot, splits) => splits,
                        values: (plot, splits) => splits.map((ms) => (last ? duration(ms) : "")),
                        ticks: { show: last, stroke: colour("line"), size: 5 },
                    },
                    {
                        ...axis(),
                        size: LEFT,
                        values: (plot, splits) => splits.map(panel.text),
                        ...(panel.splits ? { splits: panel.splits, filter: (plot, splits) => splits } : {}),
                        ...(panel.incrs ? { incrs: panel.incrs } : {}),
                        space: 30,
                    },
                ],
                series: [{}, ...(banded ? [edge, edge] : []), line],
                bands: banded ? [{ series: [1, 2], fill: colour("accent-soft") }] : [],
                hooks: {
                    drawClear: [(plot) => this.#drawUnder(plot, panel)],
                    draw: [(plot) => this.#drawOver(plot, panel, first)],
                },
            },
            data,
            this.#panels,
        );
    }

    #topLoss() {
        // A decade and a half better than what is asked for, at a round share: beyond it nobody looks.
        const wanted = this.#curve.target_ppm === null ? 999_900 : 1e6 - (1e6 - this.#curve.target_ppm) / 30;
        return 6 - Math.log10(1e6 - (SHARES_PPM.find((ppm) => ppm >= wanted) ?? SHARES_PPM.at(-1)));
    }

    #drawUnder(plot) {
        const fits = this.#curve.points.filter((point) => point.meets_all);
        if (!fits.length) return;
        const { ctx, bbox } = plot;
        const left = plot.valToPos(fits[0].bound_ms, "x", true);
        const right = plot.valToPos(fits.at(-1).bound_ms, "x", true);
        ctx.save();
        ctx.fillStyle = colour("feasible");
        ctx.fillRect(left, bbox.top, Math.max(right - left, 2), bbox.height);
        ctx.restore();
    }

    #drawOver(plot, panel, first) {
        const { ctx, bbox } = plot;
        const ratio = devicePixelRatio || 1;
        ctx.save();
        ctx.font = `${11.5 * ratio}px system-ui, "Liberation Sans", sans-serif`;
        if (panel.limit) {
            const y = plot.valToPos(panel.limit.at, "y", true);
            ctx.strokeStyle = ctx.fillStyle = colour("bad");
            ctx.lineWidth = 1.4 * ratio;
            ctx.setLineDash([7 * ratio, 4 * ratio]);
            ctx.beginPath();
            ctx.moveTo(bbox.left, y);
            ctx.lineTo(bbox.left + bbox.width, y);
            ctx.stroke();
            ctx.textAlign = "right";
            ctx.textBaseline = y - bbox.top < 16 * ratio ? "top" : "bottom";
            ctx.setLineDash([]);
            write(
                ctx,
                panel.limit.text,
                bbox.left + bbox.width - 4 * ratio,
                y + (y - bbox.top < 16 * ratio ? 3 : -3) * ratio,
            );
        }
        ctx.textAlign = "left";
        ctx.textBaseline = "top";
        ctx.fillStyle = colour("ink-soft");
        write(ctx, panel.label, bbox.left + 6 * ratio, bbox.top + 4 * ratio);
        this.#drawMarks(plot, first, ratio);
        ctx.restore();
    }

    #drawMarks(plot, first, ratio) {
        const { ctx, bbox } = plot;
        const taken = [];
        for (const mark of this.#marks()) {
            const x = plot.valToPos(mark.ms, "x", true);
            ctx.strokeStyle = ctx.fillStyle = colour(mark.colour);
            ctx.lineWidth = 1.6 * ratio;
            ctx.setLineDash(mark.dash.map((part) => part * ratio));
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
            if (!first) continue;
            const text = `${mark.name} ${duration(mark.ms)}`;
            const wide = ctx.measureText(text).width;
            const left = Math.min(Math.max(x - wide / 2, bbox.left), bbox.left + bbox.width - wide);
            const row = [0, 1, 2].find(
                (one) =>
                    !taken.some(
                        (other) =>
                            other.row === one && left < other.right + 8 * ratio && left + wide > other.left - 8 * ratio,
                    ),
            );
            if (row === undefined) continue;
            taken.push({ row, left, right: left + wide });
            ctx.textAlign = "left";
            ctx.textBaseline = "bottom";
            ctx.fillText(text, left, bbox.top - (3 + row * 13) * ratio);
        }
        ctx.setLineDash([]);
    }

    #marks() {
        const { operating, recommended_bound_ms: recommended } = this.#curve;
        return [
            { name: "in use", ms: operating.bound_ms, colour: "ink", dash: [] },
            { name: "recommended", ms: recommended, colour: "ok", dash: [6, 3] },
            { name: "effective", ms: operating.effective_bound_ms, colour: "series-effective", dash: [2, 3] },
        ].filter((mark) => mark.ms !== null && mark.ms >= 0 && mark.ms <= this.#most);
    }

    #tellLegend() {
        const { points, basis } = this.#curve;
        const fits = points.filter((point) => point.meets_all);
        const span = fits.length ? `${duration(fits[0].bound_ms)} – ${duration(fits.at(-1).bound_ms)}` : null;
        put(
            this.#legend,
            this.#curve.target_ppm !== null &&
                el(
                    "span",
                    { class: "readout-entry" },
                    el("span", { class: "swatch swatch-area", style: { "--swatch": "var(--feasible)" } }),
                    span ? `${span}: target and caps are met` : "no bound shown meets target and caps",
                ),
            el("span", { class: "readout-entry dim", text: `over the last ${duration(basis.horizon_ms)}` }),
        );
    }

    #fit() {
        const width = this.#place.clientWidth;
        if (width <= 0) return;
        for (const plot of this.#plots) if (plot.width !== width) plot.setSize({ width, height: plot.height });
        queueMicrotask(() => this.#put());
    }

    #put() {
        const plot = this.#plots[0];
        if (!plot || this.#bound === null) return;
        const left = LEFT + plot.valToPos(Math.min(this.#bound, this.#most), "x");
        this.#slider.style.setProperty("--at", `${left}px`);
        this.#slider.setAttribute("aria-valuenow", String(this.#bound));
        this.#slider.setAttribute("aria-valuetext", exactDuration(this.#bound));
        if (document.activeElement !== this.#field) this.#field.value = exactDuration(this.#bound);
    }

    #onDown(event) {
        if (event.button !== 0) return;
        this.#slider.setPointerCapture(event.pointerId);
        this.#dragged = true;
        this.#slider.focus({ preventScroll: true });
        this.#toPointer(event);
        event.preventDefault();
    }

    #onMove(event) {
        if (this.#slider.hasPointerCapture(event.pointerId)) this.#toPointer(event);
    }

    #onLetGo() {
        this.#dragged = false;
        if (this.#held === null) return;
        const curve = this.#held;
        this.#held = null;
        this.show(curve);
    }

    #toPointer(event) {
        const plot = this.#plots[0];
        const left = event.clientX - this.#place.getBoundingClientRect().left - LEFT;
        const ms = plot.posToVal(Math.min(Math.max(left, 0), plot.over.clientWidth), "x");
        this.#to(Number(Math.max(ms, 0).toPrecision(3)));
    }

    #onKey(event) {
        const much = { PageUp: 10, PageDown: -10 }[event.key];
        const little = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
        if (event.key === "Home") this.#to(0);
        else if (event.key === "End") this.#to(this.#most);
        else if (much || little) this.#toStep(much ?? little * (event.shiftKey ? 5 : 1));
        else return;
        event.preventDefault();
        event.stopPropagation();
    }

    #toStep(steps) {
        const bend = this.#bend;
        const width = Math.asinh(this.#most / bend) / STEPS;
        const ms = Math.sinh(Math.asinh(this.#bound / bend) + steps * width) * bend;
        const rounded = Number(Math.max(ms, 0).toPrecision(3));
        this.#to(Math.round(rounded) === this.#bound ? this.#bound + Math.sign(steps) : rounded);
    }

    #onField() {
        const ms = parseDuration(this.#field.value);
        this.#field.setAttribute("aria-invalid", String(ms === null));
        say(this.#fieldTold, ms === null ? "write it like 8.03 s, 450 ms, 2 min or 1h30m" : "");
        if (ms !== null) {
            this.#to(ms, { beyond: true });
            this.#field.value = exactDuration(this.#bound);
        }
    }

    #to(ms, { beyond = false } = {}) {
        this.#touched = true;
        this.#bound = Math.round(Math.max(beyond ? ms : Math.min(ms, this.#most), 0));
        this.#field.setAttribute("aria-invalid", "false");
        say(this.#fieldTold, "");
        this.#put();
        this.#ask(ASK_AFTER_MS);
    }

    #ask(afterMs) {
        clearTimeout(this.#timer);
        if (this.#asked !== this.#bound) this.#told.classList.add("waiting");
        this.#timer = setTimeout(() => this.#preview(), afterMs);
    }

    async #preview() {
        this.#asking?.abort();
        const asking = new AbortController();
        this.#asking = asking;
        const bound = Math.round(this.#bound);
        try {
            const told = await get(query(`${this.#path}/preview`, { bound_ms: bound }), asking.signal);
            this.#asked = bound;
            this.#tell(told);
        } catch (error) {
            if (asking.signal.aborted) return;
            if (!(error instanceof Away || error instanceof Refused)) throw error;
            put(this.#told, el("p", { class: "error", text: `What would happen is not known: ${error.message}.` }));
        }
        this.#told.classList.remove("waiting");
    }

    #tell(told) {
        put(this.#told, previewOf(told));
        this.#slider.setAttribute(
            "aria-valuetext",
            `${exactDuration(this.#bound)}: ${shares(told.completeness_min_ppm, told.completeness_max_ppm)} kept, mean latency ${latency(told)}`,
        );
    }
}

// With a rim of the ground's colour, so that a line behind the words leaves them readable.
function write(ctx, text, x, y) {
    ctx.save();
    ctx.strokeStyle = colour("card");
    ctx.lineWidth = 4 * (devicePixelRatio || 1);
    ctx.lineJoin = "round";
    ctx.strokeText(text, x, y);
    ctx.restore();
    ctx.fillText(text, x, y);
}

function previewOf(told) {
    return [
        el(
            "dl",
            { class: "figures-row" },
            figure(
                "kept",
                shares(told.completeness_min_ppm, told.completeness_max_ppm),
                verdict(told.meets_target, "meets the target", "misses the target"),
            ),
            figure("late rows a day", about(told.late_a_day), `${count(told.late)} of ${about(told.rows)} seen`),
            figure(
                "mean latency",
                latency(told),
                verdict(told.meets_latency_cap, "within the cap", "above the cap") ??
                    latencyUnknown(told.latency_unknown),
            ),
            figure(
                "state",
                told.state_rows === null ? "–" : `${about(told.state_rows)} rows`,
                verdict(told.meets_state_cap, "within the cap", "above the cap") ??
                    (told.state_bytes === null ? "not known" : bytes(told.state_bytes)),
            ),
        ),
        el("p", { class: "sentence", text: sentence(told.text) }),
        told.transition && el("p", { class: "hint", text: sentence(told.transition) }),
    ];
}

function figure(name, value, more) {
    return el(
        "div",
        {},
        el("dt", { text: name }),
        el("dd", {}, el("span", { class: "figure", text: value }), more && el("span", { class: "figure-more" }, more)),
    );
}

function verdict(meets, yes, no) {
    return meets === null || meets === undefined ? null : badge(meets ? "ok" : "bad", meets ? yes : no);
}

function middleOf(point) {
    const { completeness_min_ppm: least, completeness_max_ppm: most } = point;
    return point.completeness_ppm ?? (least === null || most === null ? null : (least + most) / 2);
}

// Losses by their powers of ten: 90 %, 99 % and 99.9 % stand equally far apart.
function height(ppm, top) {
    return ppm === null || ppm === undefined ? null : Math.min(6 - Math.log10(Math.max(1e6 - ppm, 1e-3)), top);
}

function lossTicks(plot, top, wanted) {
    const least = plot.scales.y.min;
    const pixels = plot.bbox.height / (devicePixelRatio || 1);
    const place = (value) => ((value - least) / (top - least)) * pixels;
    const found = [];
    const add = (value) => {
        if (
            value >= least - 1e-9 &&
            value <= top + 1e-9 &&
            found.every((other) => Math.abs(place(other) - place(value)) >= 22)
        )
            found.push(value);
    };
    if (wanted !== null) add(height(wanted, top));
    add(top);
    for (const first of [true, false])
        for (const ppm of SHARES_PPM) if (PRIORITY_PPM.has(ppm) === first) add(height(ppm, top));
    return found.toSorted((one, other) => one - other);
}

function boundTicks(plot, most) {
    const found = [];
    const place = (ms) => plot.valToPos(ms, "x");
    const add = (ms) => {
        if (ms <= most && found.every((other) => Math.abs(place(other) - place(ms)) >= 62)) found.push(ms);
    };
    add(0);
    for (const ms of durationSteps.yIncrements.toReversed()) add(ms);
    return found.toSorted((one, other) => one - other);
}
