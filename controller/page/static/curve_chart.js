// What each bound admits and costs, with a bound to try.

import { BoundSlider } from "./bound_slider.js";
import { Card } from "./card.js";
import { CurvePlots } from "./curve_plots.js";
import { boundScale } from "./curve_scales.js";
import { el, put } from "./dom.js";
import { duration } from "./format.js";
import { openPolicyForm } from "./policy_form.js";
import { Preview } from "./preview.js";
import { onTheme } from "./theme.js";

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
    #path;
    #shell;
    #applyPlace = el("span");
    /** @type {Curve | null} */
    #curve = null;
    /** @type {Curve | null} A curve that came while the slider was dragged. */
    #postponed = null;
    /** @type {BoundScale | null} */
    #scale = null;
    #resize = new ResizeObserver(() => this.#fit());
    #endTheme = onTheme(() => this.#build());

    /**
     * @param {string} path
     * @param {Shell} shell
     */
    constructor(path, shell) {
        this.#path = path;
        this.#shell = shell;
        this.#preview = new Preview(path, (summary, admitted) => this.#slider.describe(summary, admitted));
        const place = el("div", { class: "curve-plots" }, this.#plots.node, this.#slider.node);
        this.#slider.fieldRow.append(el("span", { class: "space" }), this.#applyPlace);
        put(this.#card.body, this.#slider.fieldRow, this.#preview.node, this.#legend, place, this.#preview.words);
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
        this.#slider.node.hidden = this.#slider.fieldRow.hidden = curve.points.length === 0;
        this.#build();
        this.#showLegend(curve);
        if (curve.points.length === 0) this.#preview.empty();
        else this.#preview.ask(this.#slider.boundMs ?? 0);
        this.#nameApply();
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
            el("span", { class: "readout-entry dim", text: `over the last ${duration(basis.horizon_ms)}` }),
        );
    }
}
