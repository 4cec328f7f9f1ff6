// What the curve says at the pointer: bound, rows admitted and latency of the nearest point.

import { nearestPoint } from "./curve_scales.js";
import { el, put } from "./dom.js";
import { duration, latency, share, shares } from "./format.js";

/** @import { CurvePlots, PartitionShown } from "./curve_plots.js" */
/** @import { BoundScale, Curve } from "./curve_scales.js" */

/** Between the line and the far edge of the figures, in pixels, beside their own width. */
const GAP = 12;

/** A line at the point under the pointer, with its figures (`node`); keyboards read the same at the handle. */
export class CurveReading {
    #figures = el("span", { class: "reading-figures" });
    node = el("span", { class: "reading", hidden: true, "aria-hidden": "true" }, this.#figures);
    #plots;
    /** @type {Curve["points"]} */
    #points = [];
    /** @type {BoundScale} */
    #scale = { maxMs: 0, bendMs: 1 };
    /** @type {PartitionShown | null} */
    #partition = null;

    /** @param {CurvePlots} plots */
    constructor(plots) {
        this.#plots = plots;
    }

    /**
     * Follow the pointer over an element.
     * @param {HTMLElement} place
     * @param {() => boolean} busy Whether the pointer does something else now.
     */
    listen(place, busy) {
        place.addEventListener("pointermove", (event) => {
            const onHandle = event.target instanceof Element && event.target.closest(".slider") !== null;
            this.#read(busy() || onHandle ? null : event.clientX);
        });
        place.addEventListener("pointerleave", () => this.#read(null));
    }

    /**
     * @param {Curve} curve
     * @param {BoundScale} scale
     * @param {PartitionShown | null} partition
     */
    show({ points }, scale, partition) {
        this.#points = points;
        this.#scale = scale;
        this.#partition = partition;
        this.#read(null);
    }

    /** @param {number | null} clientX */
    #read(clientX) {
        const point = clientX === null ? null : nearestPoint(this.#points, this.#plots.toMs(clientX), this.#scale);
        const left = point ? this.#plots.toPixels(point.bound_ms) : null;
        this.node.hidden = left === null;
        if (!point || left === null) return;
        this.node.style.setProperty("--at", `${left}px`);
        const own = this.#partition?.points.find((one) => one.bound_ms === point.bound_ms);
        put(
            this.#figures,
            el("strong", { text: duration(point.bound_ms) }),
            el("span", { text: `${shares(point.completeness_min_ppm, point.completeness_max_ppm)} admitted` }),
            el("span", { text: `mean latency ${latency(point)}` }),
            own && el("span", { text: `of the partition ${share(own.completeness_ppm)}` }),
        );
        const room = this.#plots.node.clientWidth - GAP - this.#figures.offsetWidth;
        this.node.classList.toggle("near-end", left > room);
    }
}
