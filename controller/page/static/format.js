// Numbers as people read them. What is unknown is a dash, and never 0.

export const UNKNOWN = "–";

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNIT_MS = { ms: 1, s: 1e3, sec: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5 };
const UNITS = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "min"],
];

/** A whole number with separators. */
export function count(number) {
    return number === null || number === undefined ? UNKNOWN : NUMBER.format(number);
}

/** A number to three digits: 950, 12.3 k, 4.56 M. */
export function about(number) {
    if (number === null || number === undefined) return UNKNOWN;
    const size = Math.abs(number);
    for (const [unit, name] of [
        [1e9, "G"],
        [1e6, "M"],
        [1e4, "k"],
    ]) {
        if (size >= unit) return `${digits(number / (unit === 1e4 ? 1e3 : unit), 3)} ${name}`;
    }
    return Number.isInteger(number) ? NUMBER.format(number) : digits(number, 3);
}

/** A duration in milliseconds: 450 ms, 8.03 s, 2 min 30 s, 1 d 4 h. */
export function duration(ms) {
    if (ms === null || ms === undefined) return UNKNOWN;
    const size = Math.abs(ms);
    const sign = ms < 0 ? "−" : "";
    if (ms === 0) return "0 s";
    if (size < 1_000) return `${sign}${digits(size, 3)} ms`;
    if (size < 120_000) return `${sign}${trimmed(size / 1_000, size < 10_000 ? 2 : 1)} s`;
    const parts = [];
    let rest = size < 600_000 ? Math.round(size / 1_000) * 1_000 : Math.round(size / 60_000) * 60_000;
    for (const [unit, name] of UNITS) {
        const number = Math.floor(rest / unit);
        rest -= number * unit;
        if (number) parts.push(`${number} ${name}`);
    }
    if (rest) parts.push(`${trimmed(rest / 1_000, 0)} s`);
    return sign + parts.slice(0, 2).join(" ");
}

/** A duration to the millisecond, in seconds below two minutes: as the command line takes it. */
export function exactDuration(ms) {
    if (ms === null || ms === undefined) return UNKNOWN;
    if (ms !== 0 && Math.abs(ms) < 1_000) return `${ms} ms`;
    if (Math.abs(ms) < 120_000) return `${trimmed(ms / 1_000, 3)} s`;
    const parts = [];
    let rest = ms;
    for (const [unit, name] of UNITS) {
        const number = Math.floor(rest / unit);
        rest -= number * unit;
        if (number) parts.push(`${number} ${name}`);
    }
    if (rest) parts.push(`${trimmed(rest / 1_000, 3)} s`);
    return parts.join(" ");
}

/** The mean latency of an answer: as measured, or the least that it can be while too many windows are open. */
export function latency(told) {
    return told.latency_at_least_ms === null || told.latency_at_least_ms === undefined
        ? duration(told.latency_wall_ms)
        : `at least ${duration(told.latency_at_least_ms)}`;
}

/** A share in parts per million as a percentage, rounded down: 100 % is all. More digits the nearer it is. */
export function share(ppm) {
    if (ppm === null || ppm === undefined) return UNKNOWN;
    if (ppm >= 1_000_000) return "100 %";
    const places = ppm >= 999_900 ? 4 : ppm >= 999_000 ? 3 : 2;
    const scale = 10 ** places;
    return `${(Math.floor((ppm / 10_000) * scale + 1e-9) / scale).toFixed(places)} %`;
}

/** Two ends of an interval as one text; one share when they are the same. */
export function shares(least, most) {
    if (least === null || most === null || least === undefined || most === undefined) return share(least ?? most);
    const low = share(least);
    const high = share(most);
    return low === high ? low : `${low.replace(" %", "")} – ${high}`;
}

/** A target in parts per million, exactly: 99.5 %. */
export function target(ppm) {
    return ppm === null || ppm === undefined ? UNKNOWN : `${trimmed(ppm / 10_000, 4)} %`;
}

/** What is left of a budget: whole percent, never rounded up. */
export function budget(ppm) {
    if (ppm === null || ppm === undefined) return UNKNOWN;
    const percent = Math.floor(ppm / 10_000);
    return percent < 0 ? `−${NUMBER.format(-percent)} %` : `${percent} %`;
}

/** Bytes: 1.2 GiB. */
export function bytes(number) {
    if (number === null || number === undefined) return UNKNOWN;
    let size = number;
    for (const name of ["B", "KiB", "MiB", "GiB"]) {
        if (Math.abs(size) < 1_024) return `${digits(size, 3)} ${name}`;
        size /= 1_024;
    }
    return `${digits(size, 3)} TiB`;
}

/** A moment in microseconds: 14:03:21, with the day when it is not `today`. */
export function moment(us, nowUs = Date.now() * 1_000) {
    if (us === null || us === undefined) return UNKNOWN;
    const at = new Date(us / 1_000);
    const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    return at.toDateString() === new Date(nowUs / 1_000).toDateString() ? time : `${day(at)} ${time}`;
}

/** A moment in full, for a title. */
export function fullMoment(us) {
    return us === null || us === undefined
        ? ""
        : new Date(us / 1_000).toISOString().replace("T", " ").replace("Z", " UTC");
}

/** How long ago: 3 s ago, 5 min ago. */
export function ago(us, nowUs = Date.now() * 1_000) {
    if (us === null || us === undefined) return UNKNOWN;
    const ms = Math.max(0, (nowUs - us) / 1_000);
    return ms < 1_500 ? "just now" : `${coarse(ms)} ago`;
}

/** A duration in one unit: 3 s, 5 min, 2 h, 3 d. */
export function coarse(ms) {
    for (const [unit, name] of UNITS) if (ms >= unit) return `${Math.floor(ms / unit)} ${name}`;
    return `${Math.floor(ms / 1_000)} s`;
}

/** The milliseconds of a duration as people write it; a bare number is seconds; null when it is none. */
export function parseDuration(text) {
    const told = text.trim().toLowerCase().replace(",", ".");
    if (/^\d+(\.\d+)?$/.test(told)) return Math.round(Number(told) * 1_000);
    if (!/^(\s*\d+(\.\d+)?\s*(ms|sec|s|min|m|h|d)\s*)+$/.test(told)) return null;
    let sum = 0;
    for (const [, number, unit] of told.matchAll(/(\d+(?:\.\d+)?)\s*(ms|sec|s|min|m|h|d)/g))
        sum += Number(number) * UNIT_MS[unit];
    return Math.round(sum);
}

/** The day of a moment: 22 Nov, with the year when it is another one. */
export function day(at) {
    const told = { day: "numeric", month: "short" };
    if (at.getFullYear() !== new Date().getFullYear()) told.year = "numeric";
    return at.toLocaleDateString("en-GB", told);
}

/** A number to so many significant digits, without zeros at the end. */
export function digits(number, most) {
    return String(Number(number.toPrecision(most)));
}

/** A number with at most so many places, without zeros at the end. */
export function trimmed(number, places) {
    return String(Number(number.toFixed(places)));
}

function two(number) {
    return String(number).padStart(2, "0");
}
