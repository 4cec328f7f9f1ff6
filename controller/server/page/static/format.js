// Numbers as people read them. An unknown number is a dash, never 0.

export const UNKNOWN = "–";

/** Steps of an axis of durations, in milliseconds. */
export const DURATIONS_MS = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5,
    144e5, 216e5, 432e5, 864e5, 1728e5, 4320e5, 864e6,
];

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
/** @type {Record<string, number>} */
const UNIT_MS = { ms: 1, s: 1e3, sec: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5 };
/** @type {[number, string][]} */
const UNITS = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "min"],
];

/**
 * A whole number with separators.
 * @param {number | null | undefined} number
 */
export function count(number) {
    return number === null || number === undefined ? UNKNOWN : NUMBER.format(number);
}

/**
 * A number to three digits: 950, 12.3 k, 4.56 M.
 * @param {number | null | undefined} number
 */
export function about(number) {
    if (number === null || number === undefined) return UNKNOWN;
    const size = Math.abs(number);
    if (size >= 1e9) return `${digits(number / 1e9, 3)} G`;
    if (size >= 1e6) return `${digits(number / 1e6, 3)} M`;
    if (size >= 1e4) return `${digits(number / 1e3, 3)} k`;
    return Number.isInteger(number) ? NUMBER.format(number) : digits(number, 3);
}

/**
 * A duration in milliseconds: 450 ms, 8.03 s, 2 min 30 s, 1 d 4 h.
 * @param {number | null | undefined} ms
 */
export function duration(ms) {
    if (ms === null || ms === undefined) return UNKNOWN;
    const size = Math.abs(ms);
    const sign = ms < 0 ? "−" : "";
    if (ms === 0) return "0 s";
    if (size < 1_000) return `${sign}${digits(size, 3)} ms`;
    if (size < 119_950) return `${sign}${trimmed(size / 1_000, size < 10_000 ? 2 : 1)} s`;
    const unit = size < 600_000 ? 1_000 : 60_000;
    return (
        sign +
        inUnits(Math.round(size / unit) * unit)
            .slice(0, 2)
            .join(" ")
    );
}

/**
 * A bound in milliseconds; null is the job's own.
 * @param {number | null} ms
 */
export function bound(ms) {
    return ms === null ? "own" : duration(ms);
}

/**
 * A duration to the millisecond, in seconds below two minutes: as the command line takes it.
 * @param {number | null | undefined} ms
 */
export function exactDuration(ms) {
    if (ms === null || ms === undefined) return UNKNOWN;
    if (ms !== 0 && Math.abs(ms) < 1_000) return `${ms} ms`;
    if (Math.abs(ms) < 120_000) return `${trimmed(ms / 1_000, 3)} s`;
    return inUnits(ms).join(" ");
}

/** @param {number} ms */
function inUnits(ms) {
    const parts = [];
    let rest = ms;
    for (const [unit, name] of UNITS) {
        const number = Math.floor(rest / unit);
        rest -= number * unit;
        if (number) parts.push(`${number} ${name}`);
    }
    if (rest) parts.push(`${trimmed(rest / 1_000, 3)} s`);
    return parts;
}

/**
 * The mean latency of an answer: as measured, or its minimum while too many windows are open.
 * @param {{latency_wall_ms: number | null, latency_at_least_ms?: number | null}} answer
 */
export function latency(answer) {
    return answer.latency_at_least_ms === null || answer.latency_at_least_ms === undefined
        ? duration(answer.latency_wall_ms)
        : `at least ${duration(answer.latency_at_least_ms)}`;
}

/**
 * Hours to three digits: 26.4 h.
 * @param {number} ms
 */
export function hours(ms) {
    return `${Math.abs(ms) < 36e8 ? digits(ms / 36e5, 3) : count(ms / 36e5)} h`;
}

/**
 * A number of which perhaps only limits are known: 12, 12 to 15, at least 12.
 * @param {{min: number | null, max: number | null}} interval
 * @param {(number: number) => string} text
 */
export function between({ min, max }, text) {
    if (min === null) return max === null ? UNKNOWN : `at most ${text(max)}`;
    if (max === null) return `at least ${text(min)}`;
    const [least, most] = [text(min), text(max)];
    return least === most ? least : `${least} to ${most}`;
}

/** After the number, on the same line. */
export const PERCENT = "\u00a0%";

/**
 * A share in parts per million as a percentage, rounded down so that 100 % is all. More digits near 100 %.
 * @param {number | null | undefined} ppm
 */
export function share(ppm) {
    if (ppm === null || ppm === undefined) return UNKNOWN;
    if (ppm >= 1_000_000) return `100${PERCENT}`;
    const places = ppm >= 999_900 ? 4 : ppm >= 999_000 ? 3 : 2;
    const scale = 10 ** places;
    return `${(Math.floor((ppm / 10_000) * scale + 1e-9) / scale).toFixed(places)}${PERCENT}`;
}

/**
 * Both ends of an interval of shares as one text; one share when they read the same.
 * @param {number | null | undefined} low
 * @param {number | null | undefined} high
 */
export function shares(low, high) {
    const [from, to] = [share(low ?? high), share(high ?? low)];
    return from === to ? from : `${from.replace(PERCENT, "")} – ${to}`;
}

/**
 * A target in parts per million, exactly: 99.5 %.
 * @param {number | null | undefined} ppm
 */
export function target(ppm) {
    return ppm === null || ppm === undefined ? UNKNOWN : `${trimmed(ppm / 10_000, 4)}${PERCENT}`;
}

/**
 * The rest of a budget in whole percent, never rounded up.
 * @param {number | null | undefined} ppm
 */
export function budget(ppm) {
    if (ppm === null || ppm === undefined) return UNKNOWN;
    const percent = Math.floor(ppm / 10_000);
    return `${percent < 0 ? "−" : ""}${NUMBER.format(Math.abs(percent))}${PERCENT}`;
}

/**
 * Bytes: 1.2 GiB.
 * @param {number | null | undefined} number
 */
export function bytes(number) {
    if (number === null || number === undefined) return UNKNOWN;
    let size = number;
    for (const name of ["B", "KiB", "MiB", "GiB"]) {
        if (Math.abs(size) < 1_024) return `${digits(size, 3)} ${name}`;
        size /= 1_024;
    }
    return `${digits(size, 3)} TiB`;
}

/**
 * A moment in microseconds: 14:03:21, with the day when that is not today.
 * @param {number | null | undefined} us
 */
export function moment(us, nowUs = Date.now() * 1_000) {
    if (us === null || us === undefined) return UNKNOWN;
    const at = new Date(us / 1_000);
    const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    return at.toDateString() === new Date(nowUs / 1_000).toDateString() ? time : `${day(at)} ${time}`;
}

/**
 * A text of the controller with its moments, which it says in UTC, as the page has them.
 * @param {string} text
 */
export function localTimes(text, nowUs = Date.now() * 1_000) {
    return text.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (_, date, time) =>
        moment(Date.parse(`${date}T${time}Z`) * 1_000, nowUs),
    );
}

/**
 * A moment in full, for a title.
 * @param {number | null | undefined} us
 */
export function fullMoment(us) {
    return us === null || us === undefined
        ? ""
        : new Date(us / 1_000).toISOString().replace("T", " ").replace("Z", " UTC");
}

/**
 * The time since a moment: 3 s ago, 5 min ago.
 * @param {number | null | undefined} us
 */
export function ago(us, nowUs = Date.now() * 1_000) {
    if (us === null || us === undefined) return UNKNOWN;
    const ms = Math.max(0, (nowUs - us) / 1_000);
    return ms < 1_500 ? "just now" : `${coarse(ms)} ago`;
}

/**
 * A duration in one unit: 3 s, 5 min, 2 h, 3 d.
 * @param {number} ms
 */
export function coarse(ms) {
    for (const [unit, name] of UNITS) if (ms >= unit) return `${Math.floor(ms / unit)} ${name}`;
    return `${Math.floor(ms / 1_000)} s`;
}

/**
 * Return the milliseconds of a duration as people write it. A bare number is seconds; null means not a duration.
 * @param {string} text
 */
export function parseDuration(text) {
    const written = text.trim().toLowerCase().replace(",", ".");
    if (/^\d+(\.\d+)?$/.test(written)) return Math.round(Number(written) * 1_000);
    if (!/^(\s*\d+(\.\d+)?\s*(ms|sec|s|min|m|h|d)\s*)+$/.test(written)) return null;
    let sum = 0;
    for (const [, number, unit] of written.matchAll(/(\d+(?:\.\d+)?)\s*(ms|sec|s|min|m|h|d)/g)) {
        sum += Number(number) * UNIT_MS[unit];
    }
    return Math.round(sum);
}

/**
 * The day of a moment: 22 Nov, with the year when it is another one.
 * @param {Date} at
 */
export function day(at) {
    const year = at.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
    return at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/**
 * A number to so many significant digits, without zeros at the end.
 * @param {number} number
 * @param {number} places
 */
export function digits(number, places) {
    return plain(Number(number.toPrecision(places)));
}

/**
 * A number with at most so many places, without zeros at the end.
 * @param {number} number
 * @param {number} places
 */
export function trimmed(number, places) {
    return plain(Number(number.toFixed(places)));
}

/**
 * A number with all its digits: `String` writes the smallest and the greatest in scientific notation.
 * @param {number} number
 */
function plain(number) {
    return number.toLocaleString("en", { maximumFractionDigits: 20, useGrouping: false });
}

/** @param {number} number */
function two(number) {
    return String(number).padStart(2, "0");
}
