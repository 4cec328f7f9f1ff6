// The parts of a stream's view that are words and tables.

import { get, nowUs, query } from "./api.js";
import { rolloutButtons } from "./actions.js";
import { Card } from "./chart.js";
import { badge, button, el, icon, put } from "./dom.js";
import { about, ago, count, duration, fullMoment, moment, share, shares, trimmed } from "./format.js";
import { condition, gate, plural, rolloutState, spaced, step } from "./words.js";

const WAY = ["Recommended", "AwaitingApproval", "Published", "Acknowledged", "Effective", "Verified"];
const OLDER = 5;

/** Rollouts: the newest with what may be done, and those before it. */
export class RolloutPanel {
    #card = new Card("Rollouts", { name: "rollouts" });
    #path;
    #shell;

    constructor(path, shell) {
        this.#path = path;
        this.#shell = shell;
        this.node = this.#card.node;
    }

    show(page) {
        this.#card.loaded();
        const [newest, ...older] = page.rollouts;
        if (!newest) {
            put(
                this.#card.body,
                el("p", {
                    class: "empty small",
                    text: "None yet: in mode Off nothing is rolled, and else only a bound that differs.",
                }),
            );
            return;
        }
        put(
            this.#card.body,
            this.#newest(newest),
            older.length > 0 &&
                el(
                    "table",
                    { class: "figures" },
                    el("caption", { class: "visually-hidden", text: "Rollouts before it" }),
                    el(
                        "tbody",
                        {},
                        older.slice(0, OLDER).map((rollout) => olderRow(rollout)),
                    ),
                ),
        );
    }

    #newest(rollout) {
        const { kind, name } = rolloutState(rollout.state);
        const acts = rolloutButtons(this.#path, rollout, this.#shell);
        return el(
            "div",
            { class: "rollout" },
            el(
                "p",
                { class: "row" },
                el("strong", { text: `#${rollout.id}` }),
                el(
                    "span",
                    { class: "rollout-way" },
                    told(rollout.from_bound_ms),
                    " → ",
                    el("strong", { text: told(rollout.to_bound_ms) }),
                ),
                badge(kind, name),
                rollout.held_by &&
                    !(rollout.held_by === "Approval" && rollout.state === "AwaitingApproval") &&
                    badge("pause", gate(rollout.held_by)),
            ),
            WAY.includes(rollout.state) && stepper(rollout),
            el("p", { text: rollout.reason }),
            el("p", { class: "hint", text: promised(rollout) }),
            rollout.approved &&
                el("p", {
                    class: "hint",
                    text: `Approved ${moment(rollout.approved.at_us)}${rollout.approved.by ? ` by ${rollout.approved.by}` : ""}: ${rollout.approved.reason}`,
                }),
            acts.length > 0 && el("p", { class: "row" }, acts),
        );
    }
}

function stepper(rollout) {
    const way = WAY.filter((state) => state !== "AwaitingApproval" || rollout.state === state);
    const at = way.indexOf(rollout.state);
    return el(
        "ol",
        { class: "stepper", "aria-label": "Where it is" },
        way.map((state, n) =>
            el("li", {
                class: n < at ? "past" : n === at ? "here" : null,
                "aria-current": n === at ? "step" : null,
                text: rolloutState(state).name,
            }),
        ),
    );
}

function promised(rollout) {
    const { predicted, judged } = rollout;
    const said = predicted.rows
        ? `Predicted ${shares(predicted.min_ppm, predicted.max_ppm)} kept, mean latency ${predicted.latency_wall_ms === null ? "not known" : duration(predicted.latency_wall_ms)}.`
        : "Nothing could be predicted.";
    if (!rollout.effective_us) return said;
    const kept = judged.rows
        ? share(Math.floor(((judged.rows - judged.late_max) / judged.rows) * 1e6))
        : "nothing yet";
    return `${said} Judged ${plural(judged.rows, "row")}: ${kept}${judged.rows ? " kept" : ""}.`;
}

function olderRow(rollout) {
    const { kind, name } = rolloutState(rollout.state);
    return el(
        "tr",
        { title: rollout.reason },
        el("th", { scope: "row", text: `#${rollout.id}` }),
        el("td", { class: "dim", text: moment(rollout.published_us ?? rollout.created_us) }),
        el("td", { class: "number", text: `${told(rollout.from_bound_ms)} → ${told(rollout.to_bound_ms)}` }),
        el("td", {}, badge(kind, name)),
    );
}

function told(ms) {
    return ms === null ? "own" : duration(ms);
}

/** How the recommendation came about, step by step. */
export class ReasonsPanel {
    #card = new Card("Why this bound", { name: "reasons" });

    constructor() {
        this.node = this.#card.node;
    }

    show({ recommended, transition }) {
        this.#card.loaded();
        if (recommended === null) {
            put(
                this.#card.body,
                el("p", { class: "empty small", text: "No recommendation yet: it needs an SLO and reports." }),
            );
            return;
        }
        let before = null;
        put(
            this.#card.body,
            el(
                "ol",
                { class: "chain" },
                recommended.steps.map((one) => {
                    const changed = one.bound_ms !== before;
                    before = one.bound_ms;
                    return el(
                        "li",
                        { class: changed ? "changed" : null },
                        el("span", { class: "chain-name", text: step(one.name) }),
                        el("span", { class: "chain-bound", text: duration(one.bound_ms) }),
                        el("span", { class: "chain-reason", text: one.reason }),
                    );
                }),
            ),
            el(
                "p",
                { class: "chain-end" },
                el("strong", {
                    text: recommended.bound_ms === null ? "Keep the bound in use" : duration(recommended.bound_ms),
                }),
                el("span", {
                    class: "dim",
                    title: fullMoment(recommended.decided_us),
                    text: `decided ${ago(recommended.decided_us, nowUs())}${recommended.current ? "" : ", being renewed"}`,
                }),
            ),
            transition && transition.kind !== "same" && el("p", { class: "hint", text: transition.text }),
        );
    }
}

/** What was predicted of each published bound, and what came. */
export class PredictionsPanel {
    #card = new Card("Predictions against what came", { name: "predictions" });

    constructor() {
        this.node = this.#card.node;
    }

    show(page) {
        this.#card.loaded();
        if (!page.predictions.length) {
            put(
                this.#card.body,
                el("p", { class: "empty small", text: "None yet: one is made with each bound that is published." }),
            );
            return;
        }
        put(
            this.#card.body,
            el(
                "table",
                { class: "figures" },
                el(
                    "thead",
                    {},
                    el(
                        "tr",
                        {},
                        ["Made", "Bound", "Predicted", "Came", "Off by"].map((text, n) =>
                            el("th", {
                                scope: "col",
                                class: n === 0 ? null : n === 4 ? "number col-off" : "number",
                                text,
                            }),
                        ),
                    ),
                ),
                el(
                    "tbody",
                    {},
                    page.predictions.map((one) => predictionRow(one, page.min_rows)),
                ),
            ),
        );
    }
}

function predictionRow(one, leastRows) {
    const { realised } = one;
    const waits =
        realised.became_effective_us === null
            ? "not in effect yet"
            : `${about(realised.rows)} of ${about(leastRows)} rows`;
    return el(
        "tr",
        { title: one.text },
        el("th", { scope: "row", text: moment(one.made_us) }),
        el("td", { class: "number", text: duration(one.bound_ms) }),
        el("td", {
            class: "number",
            title: `${share(one.min_ppm)} to ${share(one.max_ppm)}`,
            text: share(one.completeness_ppm),
        }),
        el(
            "td",
            { class: "number" },
            realised.completeness_ppm === null
                ? el("span", { class: "dim", text: waits })
                : share(realised.completeness_ppm),
        ),
        el(
            "td",
            { class: "number col-off" },
            realised.error_ppm === null ? el("span", { class: "dim", text: "–" }) : points(realised.error_ppm),
        ),
    );
}

function points(ppm) {
    const size = trimmed(Math.abs(ppm) / 10_000, 3);
    return `${ppm < 0 ? "−" : ppm > 0 ? "+" : ""}${size} pt`;
}

/** What changed, when, why, and by whom. */
export class EventsPanel {
    #card = new Card("Decision log", { name: "events" });
    #path;
    #list = el("ol", { class: "events" });
    #more = button("Older", () => this.#older(), { class: "button small" });
    #newest = [];
    #oldest = [];
    #cursor = null;

    constructor(path) {
        this.#path = path;
        put(this.#card.body, this.#list, el("p", { class: "row" }, this.#more));
        this.node = this.#card.node;
    }

    show(page) {
        this.#card.loaded();
        this.#newest = page.events;
        if (!this.#oldest.length) this.#cursor = page.next_cursor;
        this.#fill();
    }

    async #older() {
        this.#more.disabled = true;
        try {
            const page = await get(query(`${this.#path}/events`, { limit: 50, cursor: this.#cursor }));
            this.#oldest.push(...page.events);
            this.#cursor = page.next_cursor;
            this.#fill();
        } catch {
            // The next turn of the page says what is wrong.
        }
        this.#more.disabled = false;
    }

    #fill() {
        const known = new Set(this.#newest.map((event) => event.id));
        const events = [...this.#newest, ...this.#oldest.filter((event) => !known.has(event.id))];
        put(
            this.#list,
            events.length
                ? events.map((event) => eventItem(event))
                : el("li", { class: "empty small", text: "Nothing has changed yet." }),
        );
        this.#more.hidden = this.#cursor === null;
    }
}

function eventItem(event) {
    return el(
        "li",
        {},
        el("time", {
            class: "event-time",
            datetime: new Date(event.last_us / 1_000).toISOString(),
            title: fullMoment(event.last_us),
            text: moment(event.last_us),
        }),
        el(
            "div",
            {},
            el("strong", { text: spaced(event.kind) }),
            event.count > 1 && el("span", { class: "dim", text: ` ×${event.count}` }),
            event.by && el("span", { class: "dim", text: ` by ${event.by}` }),
        ),
        el("div", { class: "event-why" }, reasonOf(event.reason)),
        changeOf(event),
    );
}

const LONG = 170;

function reasonOf(text) {
    if (text.length <= LONG) return el("p", { text });
    const cut = text.lastIndexOf(" ", LONG - 30);
    return el(
        "details",
        {},
        el("summary", { text: `${text.slice(0, cut)} …` }),
        el("p", { text: `… ${text.slice(cut + 1)}` }),
    );
}

const MAX_CHANGES = 6;

// What an event keeps of before and after is JSON of the release that wrote it: what differs is shown, whatever it is.
function changeOf(event) {
    const [before, after] = [event.before, event.after].map(flat);
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
        (name) => before[name] !== after[name],
    );
    if (!names.length) return null;
    return el(
        "p",
        { class: "event-change" },
        names
            .slice(0, MAX_CHANGES)
            .map((name) =>
                el("code", { text: `${name ? `${name} ` : ""}${before[name] ?? "–"} → ${after[name] ?? "–"}` }),
            ),
        names.length > MAX_CHANGES && el("span", { class: "dim", text: `and ${names.length - MAX_CHANGES} more` }),
    );
}

function flat(text) {
    if (text === null) return {};
    let value;
    try {
        value = JSON.parse(text);
    } catch {
        return { "": text };
    }
    if (value === null) return {};
    if (typeof value !== "object" || Array.isArray(value)) return { "": JSON.stringify(value) };
    return Object.fromEntries(
        Object.entries(value).map(([name, one]) => [name, typeof one === "string" ? one : JSON.stringify(one)]),
    );
}

/** What the fast policy in the driver did, for a stream in Live. */
export class LivePanel {
    #card = new Card("Live", { name: "live" });

    constructor() {
        this.node = this.#card.node;
    }

    show({ live }) {
        this.#card.loaded();
        this.node.hidden = live === null;
        if (live === null) return;
        const used = live.ceiling_used_ppm;
        put(
            this.#card.body,
            el("p", { text: live.reason }),
            el(
                "dl",
                { class: "pairs" },
                pair("Watermark offered", live.control_ms === null ? "none yet" : moment(live.control_ms * 1_000)),
                pair("Ceiling", `${duration(live.ceiling_ms)}, ${Math.round(used / 10_000)} % of it used`),
                pair("Behind", named(live.behind, live.behind_partitions)),
                pair("Idle", named(live.idle, live.idle_partitions)),
                pair("Job heard the controller", live.last_contact_us === null ? "never" : ago(live.last_contact_us, nowUs())),
            ),
        );
    }
}

const NAMES_SHOWN = 8;

function named(names, all) {
    if (!all) return "none";
    const more = all - Math.min(names.length, NAMES_SHOWN);
    return names.slice(0, NAMES_SHOWN).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function pair(name, value) {
    return el("div", {}, el("dt", { text: name }), el("dd", { text: value }));
}

/** The evidence that everything rests on. */
export class EvidencePanel {
    #card = new Card("Evidence", { name: "evidence" });

    constructor() {
        this.node = this.#card.node;
    }

    show({ evidence, coverage, applied, append_delay: delay }) {
        this.#card.loaded();
        const missing = evidence.missing_batches;
        put(
            this.#card.body,
            el(
                "dl",
                { class: "pairs" },
                pair(
                    "Rows with a known need",
                    `${count(evidence.rows)}${evidence.rows_needed ? ` (${count(evidence.rows_needed)} certify the target)` : ""}`,
                ),
                pair("Rows of unknown need", count(evidence.unknown_rows)),
                pair(
                    "Batches",
                    `${count(evidence.batches)}${missing ? `, ${count(missing)} never reported` : ", none missing"}`,
                ),
                pair("Partitions", count(evidence.partitions)),
                pair(
                    "Over",
                    evidence.from_us === null
                        ? "nothing yet"
                        : `${moment(evidence.from_us)} to ${moment(evidence.to_us)}`,
                ),
                applied &&
                    pair(
                        "Job runs with",
                        `${duration(applied.bound_ms)} from ${SOURCES[applied.source] ?? applied.source}${applied.ceiling_ms === null ? "" : `, ceiling ${duration(applied.ceiling_ms)}`}`,
                    ),
                delay &&
                    pair(
                        "Appended to the source",
                        `${duration(delay.mean_ms)} after the event in the mean, ${duration(delay.max_ms)} at the most`,
                    ),
            ),
            missing > 0 &&
                el(
                    "p",
                    { class: "hint" },
                    icon("warn"),
                    " Not reported: ",
                    coverage
                        .flatMap((query) => query.missing)
                        .slice(-NAMES_SHOWN)
                        .map((gap) => (gap.first === gap.last ? `${gap.first}` : `${gap.first}–${gap.last}`))
                        .join(", "),
                ),
        );
    }
}

const SOURCES = { controller: "the controller", disk: "its last good answer on disk", job: "its own code" };

const GRAVITY = ["bad", "warn", "pause", "info", "ok"];

/** What somebody should know of the stream, the gravest first. */
export function conditionList(conditions) {
    const found = conditions.map((one) => ({ detail: one.detail, ...condition(one.type) }));
    return el(
        "ul",
        { class: "conditions", "aria-label": "Conditions" },
        found
            .toSorted((one, other) => GRAVITY.indexOf(one.kind) - GRAVITY.indexOf(other.kind))
            .map(({ kind, name, detail }) =>
                el(
                    "li",
                    { class: `condition condition-${kind}` },
                    icon(kind),
                    el("span", {}, el("strong", { text: `${name}: ` }), detail),
                ),
            ),
    );
}
