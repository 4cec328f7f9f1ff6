// What each bound admits and costs, with a bound to try.

import { Away, get, query, Rejected } from "./api.js";
import { BoundSlider } from "./bound_slider.js";
import { Card } from "./card.js";
import { CurvePlots } from "./curve_plots.js";
import { CurveReading } from "./curve_reading.js";
import { boundScale } from "./curve_scales.js";
import { button, el, put } from "./dom.js";
import { duration } from "./format.js";
import { openPolicyForm } from "./policy_form.js";
import { Preview } from "./preview.js";
import { onTheme } from "./theme.js";
import { provisionalEnds } from "./words.js";

/** @import { PartitionCurve, StreamStatus } from "api" */
/** @import { PartitionShown } from "./curve_plots.js" */
/** @import { BoundScale, Curve } from "./curve_scales.js" */
/** @import { Shell } from "./stream.js" */

/** The card. */
export class CurveChart {
    #card = new Card("What each bound admits and costs", "curve");
    node = this.#card.node;
    #legend = el("div", { class: "readout" });
    #plots = new CurvePlots();
    #slider = new BoundSlider(this.#plots, {
        changed: () => {
            this.#nameApply();
            this.#preview.ask(this.#slider.boundMs ?? 0);
        },
        released: () => this.#onRelease(),
    });
    #preview;
    #reading;
    /** @type {PartitionShown | null} */
    #partition = null;
    #partitionPlace = el("span", { class: "readout-entry" });
    #path;
    #shell;
    #applyPlace = el("span");
    /** @type {Curve | null} */
    #curve = null;
    /** @type {Curve | null} A curve that came while the slider was dragged. */
    #postponed = null;
    /** @type {StreamStatus["provisional_bound"]} */
    #provisional = null;
    /** @type {BoundScale | null} */
    #scale = null;
    #ended = new AbortController();
    #resize = new ResizeObserver(() => this.#fit());
    #endTheme = onTheme(() => this.#build());

    /**
     * @param {string} path
     * @param {Shell} shell
     */
    constructor(path, shell) {
        this.#path = path;
        this.#shell = shell;
        this.#preview = new Preview(path, (summary) => this.#slider.describe(summary));
        this.#reading = new CurveReading(this.#plots);
        const place = el("div", { class: "curve-plots" }, this.#plots.node, this.#reading.node, this.#slider.node);
        this.#reading.listen(place, () => this.#slider.dragged);
        this.#slider.fieldRow.append(el("span", { class: "space" }), this.#applyPlace);
        put(this.#card.body, this.#slider.fieldRow, this.#preview.node, this.#legend, place, this.#preview.words);
        this.#resize.observe(place);
    }

    /**
     * Show a curve.
     * @param {Curve} curve
     * @param {StreamStatus["provisional_bound"]} [provisional]
     */
    show(curve, provisional = this.#provisional) {
        this.#provisional = provisional;
        if (this.#slider.dragged) {
            this.#postponed = curve;
            return;
        }
        this.#card.loaded();
        this.#curve = curve;
        this.#scale = boundScale(curve, this.#scale);
        this.#slider.fit(
            this.#scale,
            curve.recommended_bound_ms ?? provisional?.bound_ms ?? curve.operating.bound_ms ?? this.#scale.maxMs / 4,
        );
        this.#slider.node.hidden = this.#slider.fieldRow.hidden = curve.points.length === 0;
        this.#build();
        if (this.#partition) this.#fetchPartition(this.#partition);
        this.#showLegend(curve);
        if (curve.points.length === 0) this.#preview.empty();
        else this.#preview.ask(this.#slider.boundMs ?? 0);
        this.#nameApply();
    }

    /**
     * Show a partition's own curve over the stream's.
     * @param {string} name
     * @param {number | null} withoutMs The bound that the stream would have without it.
     */
    async showPartition(name, withoutMs) {
        await this.#fetchPartition({ name, withoutMs, points: [] });
        this.node.scrollIntoView({ block: "nearest" });
        this.#partitionPlace.querySelector("button")?.focus({ preventScroll: true });
    }

    /** @param {PartitionShown} partition */
    async #fetchPartition({ name, withoutMs }) {
        if (this.#curve === null) return;
        const bounds = this.#curve.points.map((point) => point.bound_ms);
        try {
            /** @type {PartitionCurve} */
            const { points } = await get(
                query(`${this.#path}/partition-curve`, { partition: name, bound_ms: bounds }),
                this.#ended.signal,
            );
            this.#setPartition({ name, withoutMs, points });
        } catch (error) {
            if (this.#ended.signal.aborted) return;
            if (!(error instanceof Away || error instanceof Rejected)) throw error;
            put(this.#partitionPlace, el("span", { class: "error", text: `Partition ${name}: ${error.message}.` }));
        }
    }

    /** @param {PartitionShown | null} partition */
    #setPartition(partition) {
        this.#partition = partition;
        const focused = this.#partitionPlace.contains(document.activeElement);
        put(
            this.#partitionPlace,
            partition && [
                el("span", { class: "swatch swatch-dashed", style: { "--swatch": "var(--series-need)" } }),
                partitionText(partition),
                button("Hide", () => this.#setPartition(null), {
                    class: "button quiet small",
                    "aria-label": `Hide partition ${partition.name}`,
                }),
            ],
        );
        if (focused) (this.#partitionPlace.querySelector("button") ?? this.#slider.node).focus({ preventScroll: true });
        this.#build();
    }

    /** Move the focus to the handle. */
    focus() {
        this.node.scrollIntoView({ block: "nearest" });
        this.#slider.node.focus();
    }

    /** Name the bound on the button that applies it. */
    #nameApply() {
        const boundMs = this.#slider.boundMs ?? 0;
        const open = () =>
            openPolicyForm(this.#path, "apply", this.#curve?.operating.bound_ms ?? null, this.#shell, boundMs);
        const focused = this.#applyPlace.contains(document.activeElement);
        put(this.#applyPlace, this.#shell.caller.button(`Apply ${duration(boundMs)} …`, open));
        if (focused) this.#applyPlace.querySelector("button")?.focus();
    }

    end() {
        this.#ended.abort();
        this.#preview.end();
        this.#resize.disconnect();
        this.#endTheme();
        this.#plots.end();
    }

    #build() {
        if (this.#curve === null || this.#scale === null) return;
        this.#plots.build(this.#curve, this.#scale, this.#partition, this.#provisional);
        this.#reading.show(this.#curve, this.#scale, this.#partition);
        // The plots know their scales only after they have been drawn.
        queueMicrotask(() => this.#slider.place());
    }

    #fit() {
        this.#plots.fit();
        queueMicrotask(() => this.#slider.place());
    }

    #onRelease() {
        const curve = this.#postponed;
        this.#postponed = null;
        if (curve !== null) this.show(curve);
    }

    /** @param {Curve} curve */
    #showLegend({ points, basis, target_ppm: targetPpm }) {
        const fits = points.filter((point) => point.meets_all);
        const span = fits.length ? `${duration(fits[0].bound_ms)} – ${duration(fits[fits.length - 1].bound_ms)}` : null;
        const all = fits.length === points.length;
        put(
            this.#legend,
            targetPpm !== null &&
                el(
                    "span",
                    { class: "readout-entry" },
                    span &&
                        !all &&
                        el("span", { class: "swatch swatch-area", style: { "--swatch": "var(--feasible)" } }),
                    all
                        ? "every bound shown meets the target and all caps"
                        : span
                          ? `${span} meets the target and all caps`
                          : "no bound shown meets the target and all caps",
                ),
            this.#provisional !== null &&
                el(
                    "span",
                    { class: "readout-entry" },
                    el("span", { class: "swatch swatch-gap" }),
                    `${neededText(this.#provisional)}; nothing acts on it yet`,
                ),
            el("span", { class: "readout-entry dim", text: `over the last ${duration(basis.horizon_ms)}` }),
            el("span", { class: "readout-entry dim col-off", text: "rows admitted by powers of ten of the loss" }),
            this.#partitionPlace,
        );
    }
}

/** @param {NonNullable<StreamStatus["provisional_bound"]>} provisional */
function neededText(provisional) {
    const ends = provisionalEnds(provisional);
    return ends ? `the SLO needs ${ends}` : "neither end of what the SLO needs is known";
}

/** @param {PartitionShown} partition */
function partitionText({ name, withoutMs, points }) {
    if (!points.length) return `partition ${name}: no row over this time`;
    return withoutMs === null
        ? `partition ${name}`
        : `partition ${name}; without it the bound is ${duration(withoutMs)}`;
}
