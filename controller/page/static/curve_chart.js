// What each bound admits and costs, with a bound to try.

import { BoundSlider } from "./bound_slider.js";
import { Card } from "./card.js";
import { CurvePlots } from "./curve_plots.js";
import { boundScale } from "./curve_scales.js";
import { el, put } from "./dom.js";
import { duration } from "./format.js";
import { Preview } from "./preview.js";
import { onTheme } from "./theme.js";

/** @import { BoundScale, Curve } from "./curve_scales.js" */

const ASK_AFTER_MS = 150;

/** The card. */
export class CurveChart {
    #card = new Card("What each bound admits and costs", "curve");
    node = this.#card.node;
    #legend = el("div", { class: "readout" });
    #plots = new CurvePlots();
    #slider = new BoundSlider(this.#plots, {
        changed: () => this.#preview.ask(this.#slider.boundMs ?? 0, ASK_AFTER_MS),
        released: () => this.#onRelease(),
    });
    #preview;
    /** @type {Curve | null} */
    #curve = null;
    /** @type {Curve | null} A curve that came while the slider was dragged. */
    #postponed = null;
    /** @type {BoundScale | null} */
    #scale = null;
    #resize = new ResizeObserver(() => this.#fit());
    #endTheme = onTheme(() => this.#build());

    /** @param {string} path */
    constructor(path) {
        this.#preview = new Preview(path, (summary) => this.#slider.describe(summary));
        const place = el("div", { class: "curve-plots" }, this.#plots.node, this.#slider.node);
        put(this.#card.body, this.#legend, place, this.#slider.fieldRow, this.#preview.node);
        this.#resize.observe(place);
    }

    /**
     * Show a curve.
     * @param {Curve} curve
     */
    show(curve) {
        if (this.#slider.dragged) {
            this.#postponed = curve;
            return;
        }
        this.#card.loaded();
        this.#curve = curve;
        this.#scale = boundScale(curve, this.#scale);
        this.#slider.fit(this.#scale, curve.recommended_bound_ms ?? curve.operating.bound_ms ?? this.#scale.maxMs / 4);
        this.#slider.node.hidden = curve.points.length === 0;
        this.#build();
        this.#showLegend(curve);
        if (curve.points.length === 0) this.#preview.empty();
        else this.#preview.ask(this.#slider.boundMs ?? 0, 0);
    }

    end() {
        this.#preview.end();
        this.#resize.disconnect();
        this.#endTheme();
        this.#plots.end();
    }

    #build() {
        if (this.#curve === null || this.#scale === null) return;
        this.#plots.build(this.#curve, this.#scale);
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
        put(
            this.#legend,
            targetPpm !== null &&
                el(
                    "span",
                    { class: "readout-entry" },
                    el("span", { class: "swatch swatch-area", style: { "--swatch": "var(--feasible)" } }),
                    span ? `${span} meets the target and all caps` : "no bound shown meets the target and all caps",
                ),
            el("span", { class: "readout-entry dim", text: `over the last ${duration(basis.horizon_ms)}` }),
        );
    }
}
