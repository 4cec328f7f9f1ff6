// How the fleet is counted, ordered and grouped: pure functions of its streams.

/** @import { FleetStream } from "api" */
/** @typedef {"critical" | "warning" | "ok"} Level */
/** @typedef {{column: string, descending: boolean}} Sort */
/** @typedef {string | number | null} SortKey */

/** @type {Level[]} */
export const LEVELS = ["critical", "warning", "ok"];

/** @type {Record<string, (stream: FleetStream) => SortKey>} By column, what it is ordered by. */
const KEYS = {
    stream: ({ job, stream }) => `${job} / ${stream}`,
    mode: ({ mode }) => mode,
    budget: ({ budget_remaining_ppm: ppm }) => ppm,
    window: ({ window_min_ppm: ppm }) => ppm,
    now: ({ completeness_min_ppm: ppm }) => ppm,
    bound: appliedOf,
    batch: ({ last_batch_us: us }) => us,
    rollout: ({ rollout }) => rollout?.state ?? null,
    worst: (stream) => LEVELS.indexOf(levelOf(stream)),
};

/**
 * Return how a stream is: critical when its budget is overdrawn too.
 * @param {FleetStream} stream
 * @returns {Level}
 */
export function levelOf({ worst, budget_remaining_ppm: left }) {
    if (worst?.severity === "critical" || (left !== null && left < 0)) return "critical";
    return worst?.severity === "warning" ? "warning" : "ok";
}

/**
 * Return how many streams are at each level; they add up to all.
 * @param {FleetStream[]} streams
 */
export function countsOf(streams) {
    const counts = { critical: 0, warning: 0, ok: 0 };
    for (const stream of streams) counts[levelOf(stream)] += 1;
    return counts;
}

/**
 * Whether a stream's newest rollout waits for a person.
 * @param {FleetStream} stream
 */
export function awaitsApproval({ rollout }) {
    return rollout !== null && (rollout.state === "AwaitingApproval" || rollout.held_by === "Approval");
}

/**
 * Return the bound that the job runs with.
 * @param {FleetStream} stream
 */
export function appliedOf({ applied_bound_ms: applied, in_use_bound_ms: inUse }) {
    return applied ?? inUse;
}

/**
 * Return the bound that is to come: that of a rollout that waits for a person, the recommended one, or the estimate.
 * @param {FleetStream} stream
 */
export function nextOf(stream) {
    if (awaitsApproval(stream)) return stream.rollout?.to_bound_ms ?? null;
    return stream.recommended_bound_ms ?? stream.provisional_bound?.bound_ms ?? null;
}

/**
 * Return what is known of a bound on which nothing acts yet; null where something may.
 * @param {FleetStream} stream
 */
export function provisionalOf(stream) {
    return awaitsApproval(stream) ? null : stream.provisional_bound;
}

/**
 * Return the order that an address names, such as `budget` or `-budget`; null for the controller's own.
 * @param {string | undefined} text
 * @returns {Sort | null}
 */
export function sortOf(text) {
    if (!text) return null;
    const descending = text.startsWith("-");
    const column = descending ? text.slice(1) : text;
    return Object.hasOwn(KEYS, column) ? { column, descending } : null;
}

/**
 * Return an order as an address has it.
 * @param {Sort | null} sort
 */
export function sortText(sort) {
    return sort === null ? "" : `${sort.descending ? "-" : ""}${sort.column}`;
}

/**
 * Return the order after a press on a heading: ascending, descending, then the controller's own again.
 * @param {Sort | null} sort
 * @param {string} column
 * @returns {Sort | null}
 */
export function nextSort(sort, column) {
    if (sort?.column !== column) return { column, descending: false };
    return sort.descending ? null : { column, descending: true };
}

/**
 * Return streams in an order; what is not known comes last either way. Null keeps the controller's order.
 * @param {FleetStream[]} streams
 * @param {Sort | null} sort
 * @param {boolean} byJob Whether the streams of a job stand together, by its name.
 */
export function ordered(streams, sort, byJob) {
    const key = sort && KEYS[sort.column];
    const sign = sort?.descending ? -1 : 1;
    const found = key
        ? streams.toSorted((one, other) => {
              const [left, right] = [key(one), key(other)];
              if (left === null || right === null) return Number(left === null) - Number(right === null);
              return sign * compare(left, right);
          })
        : streams;
    return byJob ? found.toSorted((one, other) => compare(one.job, other.job)) : found;
}

/**
 * @param {string | number} one
 * @param {string | number} other
 */
function compare(one, other) {
    return one < other ? -1 : one > other ? 1 : 0;
}
