// The cards of a stream's view that hold words and tables.

import { nowUs } from "./api.js";
import { Card } from "./card.js";
import { el, figures, icon, pairs, put } from "./dom.js";
import { about, ago, count, duration, fullMoment, localTimes, moment, share, shares, trimmed } from "./format.js";
import { MAX_NAMES, named, sentence, spaced } from "./words.js";

/** @import { DecisionStep, Prediction, PredictionPage, StreamStatus } from "api" */

/** Shows at once what the job has yet to report. */
const HISTORY = "tidemark trace --from kafka --since 1h -o hour.parquet …, tidemark curve hour.parquet";
/** @type {Record<string, string>} */
const SOURCES = { controller: "the controller", disk: "its last good answer on disk", job: "its own code" };

/** How the recommendation came about, step by step. */
export class ReasonsPanel {
    #card = new Card("Why this bound", "reasons");
    node = this.#card.node;

    /** @param {StreamStatus} status */
    show({ recommended }) {
        this.#card.loaded();
        if (recommended === null) {
            put(
                this.#card.body,
                el("p", { class: "empty small", text: "No recommendation yet: it needs an SLO and reports." }),
            );
            return;
        }
        const { steps, bound_ms: boundMs, decided_us: decidedUs, current, decided_by: decidedBy } = recommended;
        put(
            this.#card.body,
            el(
                "ol",
                { class: "chain" },
                steps.map((step, n) =>
                    stepItem(step, step.bound_ms !== (steps[n - 1]?.bound_ms ?? null), step.kind === decidedBy),
                ),
            ),
            el(
                "p",
                { class: "chain-end" },
                el("strong", { text: boundMs === null ? "Keep the bound in use" : duration(boundMs) }),
                el("span", {
                    class: "dim",
                    title: fullMoment(decidedUs),
                    text: `decided ${ago(decidedUs, nowUs())}${current ? "" : ", being renewed"}`,
                }),
            ),
        );
    }
}

/**
 * @param {DecisionStep} step
 * @param {boolean} changed Whether it changed the bound.
 * @param {boolean} decides Whether no later step changed it but by rounding.
 */
function stepItem(step, changed, decides) {
    const name = spaced(step.kind).toLowerCase();
    return el(
        "li",
        { class: changed ? "changed" : null },
        el("span", { class: "chain-name", text: decides ? `${name} (decides)` : name }),
        el("span", { class: "chain-bound", text: changed ? duration(step.bound_ms) : "" }),
        el("span", { class: "chain-reason", text: localTimes(step.reason) }),
    );
}

/** What was predicted of each published bound, and what was then measured. */
export class PredictionsPanel {
    #card = new Card("Predictions and outcomes", "predictions");
    node = this.#card.node;

    /** @param {PredictionPage} page */
    show({ predictions, min_rows: minRows }) {
        this.#card.loaded();
        put(
            this.#card.body,
            predictions.length
                ? figures(
                      [
                          { text: "Made" },
                          { text: "Bound", class: "number" },
                          { text: "Predicted", class: "number" },
                          { text: "Measured", class: "number" },
                          { text: "Off by", class: "number col-off" },
                      ],
                      predictions.map((one, n) => predictionRow(one, minRows, n > 0)),
                  )
                : el("p", { class: "empty small", text: "None yet: each published bound comes with one." }),
        );
    }
}

/**
 * @param {Prediction} prediction
 * @param {number} minRows
 * @param {boolean} replaced Whether a later bound was published.
 */
function predictionRow({ realised, ...one }, minRows, replaced) {
    const waits =
        realised.became_effective_us === null
            ? replaced
                ? "never took effect"
                : "not in effect yet"
            : `${about(realised.rows)} of ${about(minRows)} rows`;
    return {
        title: one.text,
        cells: [
            moment(one.made_us),
            duration(one.bound_ms),
            el("span", {
                title: `${share(one.min_ppm)} to ${share(one.max_ppm)}`,
                text: share(one.completeness_ppm),
            }),
            realised.completeness_ppm === null
                ? el("span", { class: "dim", text: waits })
                : share(realised.completeness_ppm),
            realised.error_ppm === null ? el("span", { class: "dim", text: "–" }) : points(realised.error_ppm),
        ],
    };
}

/** @param {number} ppm */
function points(ppm) {
    const size = trimmed(Math.abs(ppm) / 10_000, 3);
    return `${ppm < 0 ? "−" : ppm > 0 ? "+" : ""}${size} pp`;
}

/** What the fast policy in the driver did, for a stream in mode Live. */
export class LivePanel {
    #card = new Card("Live", "live");
    node = this.#card.node;

    /** @param {StreamStatus} status */
    show({ live, evidence }) {
        this.#card.loaded();
        this.node.hidden = live === null;
        if (live === null) return;
        put(
            this.#card.body,
            el("p", { text: sentence(live.reason) }),
            pairs(
                ["As of the newest batch", ago(evidence.to_us, nowUs())],
                ["Watermark offered", live.control_ms === null ? "none yet" : moment(live.control_ms * 1_000)],
                ["Ceiling", `${duration(live.ceiling_ms)}, ${Math.round(live.ceiling_used_ppm / 10_000)} % of it used`],
                ["Behind", named(live.behind, live.behind_partitions)],
                ["Idle", named(live.idle, live.idle_partitions)],
                [
                    "Last contact with the controller",
                    live.last_contact_us === null ? "never" : ago(live.last_contact_us, nowUs()),
                ],
            ),
        );
    }
}

/** The evidence behind all decisions. */
export class EvidencePanel {
    #card = new Card("Evidence", "evidence");
    node = this.#card.node;

    /** @param {StreamStatus} status */
    show({ evidence, coverage, completeness, applied, append_delay: delay, provisional_bound: provisional }) {
        this.#card.loaded();
        const missing = evidence.missing_batches;
        put(
            this.#card.body,
            pairs(
                [
                    `Complete over ${duration(evidence.horizon_ms)}`,
                    `${shares(completeness.min_ppm, completeness.max_ppm)}${completeness.provisional ? ", provisional" : ""}`,
                ],
                completeness.corrected_max > 0 && [
                    "Late rows that corrected a window",
                    `${about(completeness.corrected_max)} at most`,
                ],
                [
                    "Rows with a known need",
                    `${count(evidence.rows)}${evidence.rows_needed ? ` (${count(evidence.rows_needed)} certify the target)` : ""}`,
                ],
                ["Rows with an unknown need", count(evidence.unknown_rows)],
                [
                    "Batches",
                    evidence.batches === 0
                        ? "no report yet"
                        : `${count(evidence.batches)}${missing ? `, ${count(missing)} never reported` : ", none missing"}`,
                ],
                ["Partitions", count(evidence.partitions)],
                [
                    "Span",
                    evidence.from_us === null
                        ? "nothing yet"
                        : `${moment(evidence.from_us)} to ${moment(evidence.to_us)}`,
                ],
                applied && [
                    "The job runs with",
                    `${duration(applied.bound_ms)} from ${SOURCES[applied.source] ?? applied.source}${applied.ceiling_ms === null ? "" : `, ceiling ${duration(applied.ceiling_ms)}`}`,
                ],
                delay && [
                    "Appended to the source",
                    `${duration(delay.mean_us / 1000)} after the event on average, ${duration(delay.max_us / 1000)} at most`,
                ],
            ),
            provisional !== null &&
                el("p", { class: "hint" }, "An hour of a Kafka topic at once: ", el("code", { text: HISTORY }), "."),
            missing > 0 &&
                el(
                    "p",
                    { class: "hint" },
                    icon("warning"),
                    " Not reported: ",
                    coverage
                        .flatMap((query) => query.missing)
                        .slice(-MAX_NAMES)
                        .map((gap) => (gap.first === gap.last ? `${gap.first}` : `${gap.first}–${gap.last}`))
                        .join(", "),
                ),
        );
    }
}
