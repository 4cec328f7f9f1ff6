// One stream in the list of the fleet.

import { badge, el, icon } from "./dom.js";
import { budget, duration, shares, target } from "./format.js";
import { streamHash } from "./router.js";
import { budgetKind, gate, rolloutState, spaced } from "./words.js";

/** @import { FleetStream } from "api" */
/** @import { Child } from "./dom.js" */

/** @type {[string, string, "text" | "number", (stream: FleetStream) => Child][]} Name, heading, kind and cell. */
const COLUMNS = [
    ["stream", "Stream", "text", nameCell],
    ["mode", "Mode", "text", modeCell],
    ["budget", "Budget left", "number", (stream) => meter(stream.budget_remaining_ppm)],
    ["now", "Complete now", "number", nowCell],
    ["window", "Over the window", "number", (stream) => shares(stream.window_min_ppm, stream.window_max_ppm)],
    ["target", "Target", "number", (stream) => target(stream.target_ppm)],
    ["recommended", "Recommended", "number", recommendedCell],
    ["applied", "Applied", "number", (stream) => duration(stream.applied_bound_ms ?? stream.in_use_bound_ms)],
    ["effective", "Effective", "number", (stream) => duration(stream.effective_bound_ms)],
    ["rollout", "Last rollout", "text", rolloutCell],
    ["worst", "Worst condition", "text", worstCell],
];

/** Return the row of headings. */
export function headings() {
    return el(
        "tr",
        { role: "row" },
        COLUMNS.map(([name, text, kind]) =>
            el("th", { scope: "col", role: "columnheader", class: `${kind} col-${name}`, text }),
        ),
    );
}

/**
 * Return the row of a stream.
 * @param {FleetStream} stream
 */
export function rowOf(stream) {
    return el(
        "tr",
        { role: "row", on: { click: follow } },
        COLUMNS.map(([name, text, kind, cell]) =>
            el(
                "td",
                { role: "cell", class: `${kind} col-${name}`, data: { label: text } },
                el("span", { class: "cell" }, cell(stream)),
            ),
        ),
    );
}

/**
 * Return the words by which the filter finds a stream.
 * @param {FleetStream} stream
 */
export function wordsOf({ job, stream, mode, worst, rollout, paused, pin }) {
    return [
        job,
        stream,
        mode,
        worst && `${worst.title} ${worst.type} ${worst.severity}`,
        rollout && rolloutState(rollout.state).name,
        paused && "paused",
        pin && "pinned",
    ]
        .filter(Boolean)
        .join(" ")
        .toLowerCase();
}

/** The whole row leads to the stream; keyboards and screen readers meet only the link. */
function follow(/** @type {MouseEvent} */ event) {
    const { target: clicked, currentTarget: row } = event;
    if (!(clicked instanceof Element && row instanceof Element)) return;
    if (clicked.closest("a") || getSelection()?.toString()) return;
    row.querySelector("a")?.click();
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

/** @param {FleetStream} stream */
function recommendedCell({ recommended_bound_ms: recommended, in_use_bound_ms: inUse }) {
    const differs = recommended !== null && inUse !== null && recommended !== inUse;
    return el("span", {
        class: differs ? "changes" : null,
        text: duration(recommended),
        title: differs ? "Differs from the bound in use" : null,
    });
}

/** @param {number | null} ppm */
function meter(ppm) {
    const kind = budgetKind(ppm);
    const width = ppm === null ? 0 : ppm < 0 ? 100 : Math.min(ppm / 10_000, 100);
    return el(
        "span",
        { class: `meter meter-${kind}` },
        el(
            "span",
            { class: "meter-bar", "aria-hidden": "true" },
            el("span", { class: "meter-fill", style: { width: `${width}%` } }),
        ),
        el("span", { class: "meter-sign" }, kind === "critical" && icon("critical")),
        el("span", { class: "meter-text", text: budget(ppm) }),
    );
}

/** @param {FleetStream} stream */
function rolloutCell({ rollout }) {
    if (!rollout) return none();
    const { kind, name } = rolloutState(rollout.state);
    return badge(kind, name, rollout.held_by && gate(rollout.held_by));
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
    return el("span", { class: "dim", text: "none" });
}
