// What the controller's names are called here, and how grave each is.

/** Conditions by type: severity and name. The severities: bad loses rows or leaves a job unsteered, warn is a doubt. */
const CONDITIONS = {
    OperatorContradicted: ["bad", "Other operator than declared"],
    LiveWithoutCeiling: ["bad", "Live without a ceiling"],
    SkewBeyondCeiling: ["bad", "Skew beyond the ceiling"],
    CeilingNear: ["bad", "Ceiling near"],
    ConstraintsConflict: ["bad", "SLO and caps conflict"],
    PartitionSkewed: ["warn", "Skewed partition"],
    TargetMissed: ["bad", "Target missed"],
    RolledBack: ["warn", "Rolled back"],
    NoRecentReport: ["warn", "No recent report"],
    CoverageGap: ["warn", "Batches missing"],
    RowsNotCounted: ["warn", "Rows not counted"],
    NeedsUnknown: ["warn", "Needs unknown"],
    FutureRows: ["warn", "Future-dated rows"],
    PartitionsSilent: ["warn", "Partitions silent"],
    BoundNotAcknowledged: ["warn", "Bound not taken up"],
    RolloutHeld: ["info", "Rollout held"],
    Paused: ["pause", "Paused"],
    Pinned: ["pause", "Pinned"],
    NotEnoughEvidence: ["info", "Not enough evidence"],
    NoReportYet: ["info", "No report yet"],
    NoSlo: ["info", "No SLO"],
    Rolling: ["info", "Rolling"],
};

/** Severity and name of a condition; one that is not known is shown by its own words. */
export function condition(type) {
    const [kind, name] = CONDITIONS[type] ?? ["warn", spaced(type)];
    return { kind, name };
}

const STATES = {
    Recommended: ["info", "recommended"],
    AwaitingApproval: ["warn", "awaits approval"],
    Published: ["info", "published"],
    Acknowledged: ["info", "acknowledged"],
    Effective: ["info", "effective"],
    Verified: ["ok", "verified"],
    RolledBack: ["bad", "rolled back"],
    Superseded: ["idle", "superseded"],
    Expired: ["warn", "expired"],
    Discarded: ["idle", "discarded"],
};

/** Severity and name of a rollout's state. */
export function rolloutState(state) {
    const [kind, name] = STATES[state] ?? ["info", spaced(state).toLowerCase()];
    return { kind, name };
}

const GATES = {
    Pinned: "held by a pin",
    Paused: "held: paused",
    NotListening: "held: the job does not listen",
    FailedBefore: "held: it failed before",
    Evidence: "held: not watched long enough",
    Frozen: "held: freeze",
    Cooldown: "held: too soon after the last",
    RateLimit: "held: enough narrowings today",
    FleetShare: "held: others are rolling",
    Approval: "waits for approval",
};

/** What holds a rollout. */
export function gate(name) {
    return GATES[name] ?? `held: ${spaced(name).toLowerCase()}`;
}

/** How grave it is to have so much of a budget left. */
export function budgetKind(ppm) {
    if (ppm === null || ppm === undefined) return "idle";
    if (ppm < 0) return "bad";
    return ppm < 250_000 ? "warn" : "ok";
}

/** What a step of the reasons chain is called. */
export function step(name) {
    return name === "quantile" ? "what the rows need" : name;
}

/** Words of a name such as RolloutPublished: Rollout published. */
export function spaced(name) {
    const words = name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
    return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Why a mean latency is not known, by what the controller calls it. */
export function latencyUnknown(why) {
    return { NoWindows: "no window has closed in time to tell", WindowsOpen: "too many windows are still open" }[why];
}

/** A text of the controller as a sentence. */
export function sentence(text) {
    const told = text.charAt(0).toUpperCase() + text.slice(1);
    return /[.?!)]$/.test(told) ? told : `${told}.`;
}

/** A word with its number: 1 row, 2 rows. */
export function plural(number, word, more = `${word}s`) {
    return `${number.toLocaleString("en")} ${number === 1 ? word : more}`;
}
