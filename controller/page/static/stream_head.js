// The head of a stream's view: its name, its conditions, and its figures in tiles.

import { nowUs } from "./api.js";
import { badge, el, icon } from "./dom.js";
import { about, ago, budget, bytes, duration, fullMoment, latency, shares, target } from "./format.js";
import { fleetHash } from "./router.js";
import { budgetKind, latencyUnknown, plural } from "./words.js";

/** @import { Condition, StreamStatus } from "api" */
/** @import { Child } from "./dom.js" */

/** @type {Record<StreamStatus["mode"], string>} */
const MODES = {
    Off: "The controller only watches; the job keeps its own bound.",
    OnRestart: "The job takes a new bound when it next starts.",
    Restart: "The job is restarted between two batches to take a new bound.",
    Live: "The job is steered while it runs.",
};

/**
 * Return the name of a stream and what is known of it at a glance.
 * @param {StreamStatus} status
 * @param {boolean} paused
 */
export function streamName({ job, stream, mode, pin, late, evidence }, paused) {
    return el(
        "div",
        { class: "stream-name" },
        el(
            "p",
            { class: "crumbs" },
            el("a", { href: fleetHash(), text: "Fleet" }),
            el("span", { text: " / " }),
            el("span", { text: job }),
        ),
        el("h1", { text: stream }),
        el(
            "p",
            { class: "row stream-facts" },
            el("span", { class: "badge badge-idle", title: MODES[mode], text: `mode ${mode}` }),
            pin && badge("pause", `pinned: ${pin.to}`, pin.reason),
            paused && badge("pause", "paused"),
            el("span", {
                class: "dim",
                title: fullMoment(evidence.to_us),
                text:
                    evidence.to_us === null ? "no batch reported yet" : `newest batch ${ago(evidence.to_us, nowUs())}`,
            }),
            (late.policy !== null || late.choices.length > 0) &&
                el("span", {
                    class: "dim",
                    title: "What becomes of late rows: counted and dropped, kept on the side, or put into corrected windows",
                    text: `late rows: ${late.text}`,
                }),
        ),
    );
}

/**
 * Return the conditions of a stream as a list, in the order of the controller: the most severe first.
 * @param {Condition[]} conditions
 */
export function conditionList(conditions) {
    return el(
        "ul",
        { class: "conditions", "aria-label": "Conditions" },
        conditions.map(({ severity, title, detail }) =>
            el(
                "li",
                { class: `condition condition-${severity}` },
                icon(severity),
                el("span", {}, el("strong", { text: `${title}: ` }), detail),
            ),
        ),
    );
}

/**
 * Return the tiles with a stream's figures.
 * @param {StreamStatus} status
 */
export function tilesOf(status) {
    return [
        budgetTile(status),
        tile(
            status.budget ? `Complete over ${duration(status.budget.window_ms)}` : "Complete over the window",
            status.budget ? shares(status.budget.min_ppm, status.budget.max_ppm) : "–",
            status.slo
                ? `target ${target(status.slo.target_ppm)}${status.slo.objective === "timeslices" ? " of each window" : ""}`
                : "no target",
        ),
        completenessTile(status),
        boundsTile(status),
        ...expectedTiles(status),
    ];
}

/** @param {StreamStatus} status */
function budgetTile({ budget: left, slo }) {
    if (!left) return tile("Budget left", "–", slo ? "no report yet" : "no SLO is set", "kind-idle");
    const kind = budgetKind(left.remaining_ppm);
    return tile(
        "Budget left",
        [budget(left.remaining_ppm), kind === "critical" && icon("critical")],
        `${about(left.bad_max)} late of ${about(left.allowed)} allowed${left.provisional ? ", provisional" : ""}`,
        `kind-${kind}`,
    );
}

/** @param {StreamStatus} status */
function completenessTile({ completeness, evidence }) {
    const { missing_batches: missing, corrected_max: corrected, provisional } = completeness;
    const notes = [
        "the horizon of the evidence",
        provisional ? "provisional" : null,
        missing ? `${plural(missing, "batch", "batches")} missing` : null,
        corrected ? `${about(corrected)} late rows corrected a window` : null,
    ];
    return tile(
        `Complete over ${duration(evidence.horizon_ms)}`,
        shares(completeness.min_ppm, completeness.max_ppm),
        notes.filter(Boolean).join(", "),
    );
}

/** @param {StreamStatus} status */
function boundsTile(status) {
    return el(
        "div",
        { class: "tile tile-bounds" },
        el("dt", { text: "Bound" }),
        el(
            "dd",
            { class: "bounds" },
            bound("recommended", status.recommended?.bound_ms, "the bound that the controller recommends"),
            bound("published", status.published.bound_ms, "the bound that the job is to take"),
            bound("applied", status.applied?.bound_ms ?? status.in_use_bound_ms, "the bound that the job runs with"),
            bound("effective", status.effective_bound_ms, "how far the watermark really trails"),
        ),
    );
}

/** @param {StreamStatus} status */
function expectedTiles({ transition, slo }) {
    if (!transition) {
        return ["Expected latency", "Expected state"].map((name) => tile(name, "–", "nothing is recommended"));
    }
    const { state_rows: rows, state_bytes: size } = transition;
    const latencyCap = slo?.latency_cap_ms;
    const stateCap = slo?.state_cap_rows;
    return [
        tile(
            "Expected latency",
            latency(transition),
            `${latencyUnknown(transition.latency_unknown) ?? "mean, at the recommended bound"}${latencyCap ? `; cap ${duration(latencyCap)}` : ""}`,
        ),
        tile(
            "Expected state",
            about(rows),
            `${rows === null ? "not known" : "rows"}${size ? `, ${bytes(size)}` : ""}${stateCap ? `; cap ${about(stateCap)}` : ""}`,
        ),
    ];
}

/**
 * @param {string} name
 * @param {Child} value
 * @param {string} more
 */
function tile(name, value, more, kind = "") {
    return el(
        "div",
        { class: "tile" },
        el("dt", { text: name }),
        el("dd", { class: `tile-value ${kind}` }, value),
        el("dd", { class: "tile-more", text: more }),
    );
}

/**
 * @param {string} name
 * @param {number | null | undefined} ms
 * @param {string} title
 */
function bound(name, ms, title) {
    return el(
        "span",
        { class: "bound", title },
        el("span", { class: "bound-ms", text: duration(ms) }),
        el("span", { class: "bound-name", text: name }),
    );
}
