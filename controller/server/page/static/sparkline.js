// The course of a budget as a small line.

import { el, svg } from "./dom.js";
import { budget } from "./format.js";

const WIDTH = 64;
const HEIGHT = 16;
/** Room for the line's own width. */
const EDGE = 1.5;
const FULL_PPM = 1_000_000;

/**
 * Return the line of a course and the height of 0 in it, in pixels; parts without a figure leave a gap.
 * @param {(number | null)[]} course Parts per million, the newest last.
 */
export function sparkPath(course) {
    const known = course.filter((ppm) => ppm !== null);
    const low = Math.min(0, ...known);
    const high = Math.max(FULL_PPM, ...known);
    /** @type {(value: number) => number} */
    const rounded = (value) => Math.round(value * 10) / 10;
    /** @type {(ppm: number) => number} */
    const y = (ppm) => rounded(HEIGHT - EDGE - ((ppm - low) / (high - low)) * (HEIGHT - 2 * EDGE));
    const step = (WIDTH - 2 * EDGE) / Math.max(course.length - 1, 1);
    let line = "";
    course.forEach((ppm, n) => {
        if (ppm === null) return;
        const x = rounded(WIDTH - EDGE - (course.length - 1 - n) * step);
        const joins = (course[n - 1] ?? null) !== null;
        // A line of no length is drawn as a dot.
        line += joins ? `L${x} ${y(ppm)}` : `M${x} ${y(ppm)}h0`;
    });
    return { line, zero: y(0) };
}

/**
 * Return the line of a course, with what it shows in words; always as wide.
 * @param {(number | null)[]} course
 */
export function sparkline(course) {
    const known = course.filter((ppm) => ppm !== null);
    const { line, zero } = sparkPath(course);
    const drawn = known.length > 1;
    const words = `Budget over the window so far: ${budget(known[0])} to ${budget(known.at(-1))}, at the lowest ${budget(Math.min(...known))}`;
    return el(
        "span",
        drawn ? { class: "spark", role: "img", "aria-label": words, title: words } : { class: "spark" },
        drawn &&
            svg(
                "svg",
                { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" },
                svg("path", { class: "spark-zero", d: `M0 ${zero}H${WIDTH}` }),
                svg("path", { class: "spark-line", d: line }),
            ),
    );
}
