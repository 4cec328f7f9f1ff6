// The scales of the curve: pure functions of its figures.

import { DURATIONS_MS } from "./format.js";

/** @import { paths } from "api" */
/** @typedef {paths["/v1/jobs/{job}/streams/{stream}/curve"]["get"]["responses"]["200"]["content"]["application/json"]} Curve */
/** @typedef {Curve["points"][number]} CurvePoint */
/** @typedef {{maxMs: number, bendMs: number}} BoundScale Linear up to about `bendMs`, logarithmic beyond it */

const SHARES_PPM = [
    0, 500_000, 800_000, 900_000, 950_000, 980_000, 990_000, 995_000, 998_000, 999_000, 999_500, 999_900, 999_950,
    999_990, 999_999,
];
const PREFERRED_PPM = new Set([0, 900_000, 990_000, 999_000, 999_900, 999_990]);
const STEPS = 100;
const MIN_LABEL_HEIGHT = 22;
const MIN_LABEL_WIDTH = 62;

/**
 * Return the scale of the bounds, on which 1 s and 1 h both have room. Small changes of a curve keep the scale that is
 * shown, so that it does not move while somebody uses it. The effective bound has no influence: just after a restart
 * it can be anything.
 * @param {Pick<Curve, "recommended_bound_ms"> & {operating: {bound_ms: number | null}, points: {bound_ms: number}[]}} curve
 * @param {BoundScale | null} shown
 * @returns {BoundScale}
 */
export function boundScale({ operating, recommended_bound_ms: recommended, points }, shown) {
    const max = Math.max(points.at(-1)?.bound_ms ?? 0, operating.bound_ms ?? 0, recommended ?? 0, 1_000);
    const middle = recommended ?? operating.bound_ms ?? points[Math.floor(points.length / 2)]?.bound_ms ?? 1_000;
    const bendMs = Math.max(middle / 2, max / 50);
    /** @type {(one: number, other: number) => boolean} */
    const near = (one, other) => one <= 2 * other && other <= 2 * one;
    if (shown && max * 1.02 <= shown.maxMs && near(max, shown.maxMs) && near(bendMs, shown.bendMs)) return shown;
    return { maxMs: Math.ceil(max * 1.15), bendMs };
}

/**
 * Return the bound so many steps further on the scale; at least 1 ms away.
 * @param {BoundScale} scale
 * @param {number} boundMs
 * @param {number} steps Negative for narrower.
 */
export function stepped({ maxMs, bendMs }, boundMs, steps) {
    const width = Math.asinh(maxMs / bendMs) / STEPS;
    const ms = rounded(Math.sinh(Math.asinh(boundMs / bendMs) + steps * width) * bendMs);
    return Math.round(ms) === boundMs ? boundMs + Math.sign(steps) : ms;
}

/**
 * Return a bound to three digits, at least 0.
 * @param {number} ms
 */
export function rounded(ms) {
    return Number(Math.max(ms, 0).toPrecision(3));
}

/**
 * Return the height of a share: losses by their powers of ten, so that 90 %, 99 % and 99.9 % are equally far apart.
 * @param {number | null | undefined} ppm
 * @param {number} top
 */
export function lossHeight(ppm, top) {
    return ppm === null || ppm === undefined ? null : Math.min(6 - Math.log10(Math.max(1e6 - ppm, 1e-3)), top);
}

/**
 * Return the share in parts per million at a height.
 * @param {number} height
 */
export function shareAtHeight(height) {
    return Math.round(1e6 - 10 ** (6 - height));
}

/**
 * Return the top of the scale: the first round share at which a thirtieth of the allowed losses is left.
 * @param {number | null} targetPpm
 */
export function topHeight(targetPpm) {
    const wanted = targetPpm === null ? 999_900 : 1e6 - (1e6 - targetPpm) / 30;
    return 6 - Math.log10(1e6 - (SHARES_PPM.find((ppm) => ppm >= wanted) ?? 999_999));
}

/**
 * Return the height of a point in the middle of what it may be.
 * @param {Pick<CurvePoint, "completeness_ppm" | "completeness_min_ppm" | "completeness_max_ppm">} point
 * @param {number} top
 */
export function middleHeight({ completeness_ppm: ppm, completeness_min_ppm: low, completeness_max_ppm: high }, top) {
    return lossHeight(ppm ?? (low === null || high === null ? null : (low + high) / 2), top);
}

/**
 * Return the heights that get a label: the target, the top, and round shares as far as there is room.
 * @param {{bottom: number, top: number, pixels: number}} axis
 * @param {number | null} targetPpm
 */
export function lossTicks({ bottom, top, pixels }, targetPpm) {
    const rest = SHARES_PPM.filter((ppm) => !PREFERRED_PPM.has(ppm));
    const wanted = [...(targetPpm === null ? [] : [targetPpm]), 1e6, ...PREFERRED_PPM, ...rest]
        .map((ppm) => lossHeight(ppm, top) ?? top)
        .filter((height) => height >= bottom - 1e-9);
    return apart(wanted, (height) => ((height - bottom) / (top - bottom)) * pixels, MIN_LABEL_HEIGHT);
}

/**
 * Return the point whose bound is nearest on the scale; undefined without any.
 * @template {{bound_ms: number}} P
 * @param {P[]} points By ascending bound.
 * @param {number} ms
 * @param {BoundScale} scale
 */
export function nearestPoint(points, ms, { bendMs }) {
    /** @type {(one: number) => number} */
    const away = (one) => Math.abs(Math.asinh(one / bendMs) - Math.asinh(ms / bendMs));
    return points.reduce(
        (/** @type {P | undefined} */ best, one) =>
            best === undefined || away(one.bound_ms) < away(best.bound_ms) ? one : best,
        undefined,
    );
}

/**
 * Return the bounds that get a label: 0, and round durations from the widest down, as far as there is room.
 * @param {number} maxMs
 * @param {(ms: number) => number} place
 * @param {number} [pixels] Room for a label.
 */
export function boundTicks(maxMs, place, pixels = MIN_LABEL_WIDTH) {
    const wanted = [0, ...[...DURATIONS_MS].reverse()].filter((ms) => ms <= maxMs);
    return apart(wanted, place, pixels);
}

/**
 * Return the wanted values in order, without those nearer than `pixels` to one that was wanted before.
 * @param {number[]} wanted
 * @param {(value: number) => number} place
 * @param {number} pixels
 */
function apart(wanted, place, pixels) {
    /** @type {number[]} */
    const found = [];
    for (const value of wanted) {
        if (found.every((other) => Math.abs(place(other) - place(value)) >= pixels)) found.push(value);
    }
    return found.sort((one, other) => one - other);
}
