// One stream in the list of the fleet.

import { nowUs } from "./api.js";
import { badge, el, icon, say } from "./dom.js";
import { appliedOf, awaitsApproval, levelOf, nextOf, provisionalOf } from "./fleet_list.js";
import { ago, bound, budget, coarse, duration, fullMoment, shares, target } from "./format.js";
import { streamHash } from "./router.js";
import { sparkline } from "./sparkline.js";
import { budgetKind, gate, plural, provisionalEnds, rolloutState, sentence, spaced } from "./words.js";

/** @import { FleetStream } from "api" */
/** @import { FoldedJob } from "./fleet_list.js" */
/** @import { Child } from "./dom.js" */

/** Share of the applied bound by which the effective one must differ to be mentioned. */
const NOTABLE = 0.05;

/** @type {[string, string, "text" | "number", (stream: FleetStream) => Child][]} Name, heading, kind and cell. */
export const COLUMNS = [
    ["stream", "Stream", "text", nameCell],
    ["mode", "Mode", "text", modeCell],
    ["budget", "Budget left", "number", budgetCell],
    ["window", "Complete over the window", "number", windowCell],
    ["now", "Complete now", "number", nowCell],
    ["bound", "Bound", "number", boundCell],
    ["rollout", "Last rollout", "text", rolloutCell],
    ["batch", "Newest batch", "number", batchCell],
    ["worst", "Worst condition", "text", worstCell],
];

/**
 * Return the row of a stream.
 * @param {FleetStream} stream
 * @param {boolean} inJob Whether it stands below the row of its job, which says the job's name.
 */
export function rowOf(stream, inJob) {
    return cells(inJob ? "in-job" : null, (cell) => cell(stream));
}

/**
 * Return the row of a job; a press opens or folds it.
 * @param {FoldedJob} job
 * @param {() => void} toggle
 */
export function jobRowOf({ job, open, count, level, worst, leastBudgetPpm, oldestBatchUs }, toggle) {
    /** @type {Record<string, Child>} */
    const shown = {
        stream: el(
            "button",
            { type: "button", class: "job-toggle", "aria-expanded": String(open), on: { click: toggle } },
            el("strong", { text: job }),
            el("span", { class: "dim", text: ` ${plural(count, "stream")}` }),
        ),
        budget: budgetText(leastBudgetPpm),
        batch: ageOf(oldestBatchUs),
        worst: worst
            ? badge(worst.severity, worst.title)
            : level === "critical"
              ? badge(level, "Budget overdrawn")
              : none(),
    };
    return cells("group", (_, name) => shown[name]);
}

/**
 * @param {string | null} classes
 * @param {(cell: (stream: FleetStream) => Child, name: string) => Child} content
 */
function cells(classes, content) {
    return el(
        "tr",
        { role: "row", class: classes, on: { click: follow } },
        COLUMNS.map(([name, text, kind, cell]) => {
            const inside = content(cell, name);
            return el(
                "td",
                { role: "cell", class: `${kind} col-${name}`, data: { label: text } },
                inside && el("span", { class: "cell" }, inside),
            );
        }),
    );
}

/**
 * Return the words by which the filter finds a stream.
 * @param {FleetStream} stream
 */
export function wordsOf(stream) {
    const { job, stream: name, mode, worst, rollout, paused, pin } = stream;
    return [
        job,
        name,
        mode,
        levelOf(stream),
        worst && `${worst.title} ${worst.type} ${worst.severity}`,
        rollout && rolloutState(rollout.state).name,
        paused && "paused",
        pin && "pinned",
        provisionalOf(stream) && "provisional",
    ]
        .filter(Boolean)
        .join(" ")
        .toLowerCase();
}

/** The whole row leads to the stream or opens the job; keyboards and screen readers meet only its link or button. */
function follow(/** @type {MouseEvent} */ event) {
    const { target: clicked, currentTarget: row } = event;
    if (!(clicked instanceof Element && row instanceof Element)) return;
    if (clicked.closest("a, button") || getSelection()?.toString()) return;
    row.querySelector(/** @type {"a"} */ ("a, button"))?.click();
}

/** @param {FleetStream} stream */
function nameCell({ job, stream }) {
    return el(
        "a",
        { class: "stream-link", href: streamHash(job, stream) },
        el("span", { class: "job", text: job }),
        el("span", { class: "slash", text: " / " }),
        el("strong", { text: stream }),
    );
}

/** @param {FleetStream} stream */
function modeCell({ mode, paused, pin }) {
    return [
        el("span", { class: "mode", text: mode }),
        paused && badge("pause", "paused"),
        pin && badge("pause", "pinned"),
    ];
}

/** @param {FleetStream} stream */
function windowCell({ window_min_ppm: low, window_max_ppm: high, target_ppm: targetPpm }) {
    if (targetPpm === null) return dim("no target");
    return [shares(low, high), el("span", { class: "dim", text: ` of ${target(targetPpm)}` })];
}

/** @param {FleetStream} stream */
function nowCell({ completeness_min_ppm: low, completeness_max_ppm: high, provisional }) {
    return [
        el("span", { text: shares(low, high) }),
        provisional &&
            el(
                "span",
                { class: "provisional", title: "Provisional: rows can still arrive and change it." },
                icon("open"),
                el("span", { class: "visually-hidden", text: " provisional" }),
            ),
    ];
}

/**
 * The bound that the job runs with; the next and the effective one only where they differ.
 * @param {FleetStream} stream
 */
function boundCell(stream) {
    const { effective_bound_ms: effective } = stream;
    const [applied, next, provisional] = [appliedOf(stream), nextOf(stream), provisionalOf(stream)];
    const changes = next !== null && applied !== null && (next !== applied || provisional !== null);
    const title = provisional
        ? sentence(provisional.text)
        : awaitsApproval(stream)
          ? "Waits for approval"
          : "Recommended";
    const trails = effective !== null && applied !== null && Math.abs(effective - applied) > NOTABLE * applied;
    return [
        el("span", { class: "bound-applied", title: "Applied", text: duration(applied) }),
        changes && [
            el("span", { class: "dim", "aria-hidden": "true", text: " → " }),
            el(
                "span",
                { class: provisional ? "changes hatched" : "changes", title },
                el("span", { class: "visually-hidden", text: provisional ? ", provisionally " : ", next " }),
                duration(next),
            ),
        ],
        provisional &&
            el("span", { class: "bound-trails bound-estimate dim", text: estimateText(stream, provisional) }),
        trails &&
            el("span", {
                class: "bound-trails dim",
                title: "How far the watermark really trails",
                text: `effective ${duration(effective)}`,
            }),
    ];
}

/**
 * Return what the number above rests on; a recommended one may be wider than what the rows need.
 * @param {FleetStream} stream
 * @param {NonNullable<FleetStream["provisional_bound"]>} provisional
 */
function estimateText({ recommended_bound_ms: recommended }, provisional) {
    const { seen_ms: seen, narrows_from_ms: from } = provisional;
    const ends = provisionalEnds(provisional);
    const said = recommended === null ? ["provisional", ends] : [ends && `rows need ${ends}`];
    const acts = from === null ? "" : `, narrows from ${coarse(from)}`;
    return `${said.filter(Boolean).join(", ")}; from ${coarse(seen)}${acts}`;
}

/** @param {FleetStream} stream */
function budgetCell({ budget_course_ppm: course, budget_remaining_ppm: ppm }) {
    return budgetText(ppm, sparkline(course));
}

/**
 * @param {number | null} ppm
 * @param {Child} [course]
 */
function budgetText(ppm, course) {
    const kind = budgetKind(ppm);
    return el(
        "span",
        { class: `meter meter-${kind}` },
        course,
        el("span", { class: "meter-sign" }, kind === "critical" && icon("critical")),
        el("span", { class: "meter-text", text: budget(ppm) }),
    );
}

/** @param {FleetStream} stream */
function rolloutCell({ rollout }) {
    if (!rollout) return none();
    const { kind, name } = rolloutState(rollout.state);
    const way = `${bound(rollout.from_bound_ms)} → ${bound(rollout.to_bound_ms)}`;
    return badge(kind, name, rollout.held_by ? `${way}, ${gate(rollout.held_by)}` : way);
}

/** @param {FleetStream} stream */
function batchCell({ last_batch_us: us }) {
    return ageOf(us);
}

/**
 * How long ago a batch began; `showAges` keeps it true.
 * @param {number | null} us
 */
function ageOf(us) {
    if (us === null) return none();
    return el("time", { class: "age", data: { us: String(us) }, title: fullMoment(us), text: ago(us, nowUs()) });
}

/**
 * Show in all rows how old their newest batches are now.
 * @param {Element} rows
 */
export function showAges(rows) {
    for (const age of rows.querySelectorAll("time.age")) {
        if (age instanceof HTMLElement) say(age, ago(Number(age.dataset.us), nowUs()));
    }
}

/** @param {FleetStream} stream */
function worstCell({ worst, alerts }) {
    if (!worst) return none();
    const more = alerts.filter((type) => type !== worst.type);
    return [
        badge(worst.severity, worst.title),
        more.length > 0 && el("span", { class: "dim", title: more.map(spaced).join(", "), text: ` +${more.length}` }),
    ];
}

function none() {
    return el("span", { class: "dim none", text: "none" });
}

/** @param {string} text */
function dim(text) {
    return el("span", { class: "dim", text });
}
