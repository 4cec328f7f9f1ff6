// How the fleet is counted, ordered and folded: pure functions of its streams.

/** @import { FleetStream } from "api" */
/** @typedef {"critical" | "warning" | "ok"} Level */
/** @typedef {{column: string, descending: boolean}} Sort */
/** @typedef {string | number | null} SortKey */
/**
 * @typedef {object} FoldedJob A job of several streams as one line
 * @property {string} job
 * @property {boolean} open
 * @property {number} count
 * @property {Level} level The worst of its streams'.
 * @property {FleetStream["worst"]} worst
 * @property {number | null} leastBudgetPpm
 * @property {number | null} oldestBatchUs Of its streams' newest batches.
 */
/** @typedef {{stream: FleetStream, inJob: boolean} | {job: FoldedJob}} Line */

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
 * Return streams in an order; what is not known comes last either way. Null is the controller's order, with silent
 * streams and then critical ones before the others.
 * @param {FleetStream[]} streams
 * @param {Sort | null} sort
 */
export function ordered(streams, sort) {
    const key = sort ? KEYS[sort.column] : urgency;
    const sign = sort?.descending ? -1 : 1;
    return streams.toSorted((one, other) => {
        const [left, right] = [key(one), key(other)];
        if (left === null || right === null) return Number(left === null) - Number(right === null);
        return sign * compare(left, right);
    });
}

/** @param {FleetStream} stream */
function urgency(stream) {
    if (stream.alerts.includes("NoRecentReport")) return 0;
    return levelOf(stream) === "critical" ? 1 : 2;
}

/**
 * Return the lines of a list in which jobs fold: a job of several streams is one line, with those of its streams below
 * it when it is open. A job stands where its first stream would.
 * @param {FleetStream[]} streams
 * @param {(job: string) => boolean} isOpen
 * @returns {Line[]}
 */
export function folded(streams, isOpen) {
    /** @type {Map<string, FleetStream[]>} */
    const jobs = new Map();
    for (const stream of streams) jobs.set(stream.job, [...(jobs.get(stream.job) ?? []), stream]);
    return [...jobs].flatMap(([job, mine]) => {
        if (mine.length === 1) return [{ stream: mine[0], inJob: false }];
        const open = isOpen(job);
        const below = open ? mine.map((stream) => ({ stream, inJob: true })) : [];
        return [{ job: jobOf(job, mine, open) }, ...below];
    });
}

/**
 * Return a job as the worst of its streams.
 * @param {string} job
 * @param {FleetStream[]} streams
 * @param {boolean} open
 * @returns {FoldedJob}
 */
function jobOf(job, streams, open) {
    const [worst] = streams.toSorted((one, other) => LEVELS.indexOf(levelOf(one)) - LEVELS.indexOf(levelOf(other)));
    return {
        job,
        open,
        count: streams.length,
        level: levelOf(worst),
        worst: worst.worst,
        leastBudgetPpm: least(streams.map(({ budget_remaining_ppm: ppm }) => ppm)),
        oldestBatchUs: least(streams.map(({ last_batch_us: us }) => us)),
    };
}

/** @param {(number | null)[]} values */
function least(values) {
    return values.reduce((one, other) => (one === null || (other !== null && other < one) ? other : one), null);
}

/**
 * @param {string | number} one
 * @param {string | number} other
 */
function compare(one, other) {
    return one < other ? -1 : one > other ? 1 : 0;
}
