// The vertical scale of bounds and needs over time: pure functions of the slots.

/** @import { HistorySlot } from "api" */

/** Needs may stretch a linear scale to so many times the bounds. */
const STRETCH = 2.5;
/** Beyond so many times the smallest value, the scale is logarithmic. */
const DECADES = 100;
/** A logarithmic scale shows no smaller part of the largest value apart. */
const SMALLEST = 1e-4;

/** @param {HistorySlot[]} slots */
function boundsOf(slots) {
    return known(slots.flatMap((slot) => [slot.in_use_bound_ms, slot.effective_bound_ms]));
}

/** @param {HistorySlot[]} slots */
function needsOf(slots) {
    return known(slots.flatMap((slot) => [slot.need_p90_ms, slot.need_target_ms]));
}

/**
 * Return up to where the scale is even before it is logarithmic; null where it is even throughout, because the values
 * span no more than two decades.
 * @param {HistorySlot[]} slots
 */
export function bendOf(slots) {
    const above = [...boundsOf(slots), ...needsOf(slots)].filter((ms) => ms > 0);
    const [low, high] = [Math.min(...above), Math.max(...above)];
    return high > DECADES * low ? Math.max(low, high * SMALLEST) : null;
}

/**
 * Return the ends of the scale; what is below 0 is left out, because every bound admits it.
 * @param {HistorySlot[]} slots
 * @returns {[number, number]}
 */
export function rangeOf(slots) {
    const bounds = boundsOf(slots);
    const needs = needsOf(slots);
    if (bendOf(slots) !== null) return [0, Math.max(...bounds, ...needs) * 2.5];
    // One slot of huge needs must not flatten the others.
    const usual = needs.toSorted((one, other) => one - other)[Math.floor(needs.length * 0.98)] ?? 1;
    const stretched = Math.min(Math.max(0, ...needs), STRETCH * Math.max(1, ...bounds, usual));
    return [0, (Math.max(0, ...bounds, stretched) || 1_000) * 1.08];
}

/**
 * Return the spans in which a need that is drawn is below 0, in microseconds.
 * @param {HistorySlot[]} slots In order.
 * @param {number} slotUs Width of a slot.
 */
export function spansBelow(slots, slotUs) {
    /** @type {[number, number][]} */
    const spans = [];
    for (const slot of slots) {
        if (![slot.need_p50_ms, slot.need_target_ms].some((ms) => ms !== null && ms < 0)) continue;
        const last = spans.at(-1);
        if (last?.[1] === slot.from_us) last[1] = slot.from_us + slotUs;
        else spans.push([slot.from_us, slot.from_us + slotUs]);
    }
    return spans;
}

/** @param {(number | null)[]} values */
function known(values) {
    return values.filter((value) => value !== null);
}
