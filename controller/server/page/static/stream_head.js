// The head of a stream's view: its name, its conditions, and its key figures.

import { nowUs } from "./api.js";
import { badge, el, icon } from "./dom.js";
import { about, ago, budget, bytes, duration, fullMoment, latency, localTimes } from "./format.js";
import { MODES } from "./words.js";
import { fleetHash } from "./router.js";
import { budgetKind, latencyUnknown } from "./words.js";

/** @import { Condition, Preview, StreamStatus } from "api" */
/** @import { Child } from "./dom.js" */

/**
 * Return the name of a stream and what is known of it at a glance.
 * @param {StreamStatus} status
 * @param {boolean} paused
 */
export function streamName(status, paused) {
    const { job, stream, mode, pin, late, evidence, applied, links_to_spark_ui: linksToSparkUi } = status;
    return el(
        "div",
        { class: "stream-name" },
        el(
            "div",
            { class: "name-row" },
            el(
                "p",
                { class: "crumbs" },
                el("a", { href: fleetHash(), text: "Fleet" }),
                el("span", { text: ` / ${job} / ` }),
            ),
            el("h1", { text: stream }),
        ),
        el(
            "p",
            { class: "row stream-facts" },
            el("span", { class: "badge kind-idle", title: MODES[mode], text: `mode ${mode}` }),
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
            applied?.spark_ui &&
                (linksToSparkUi
                    ? el("a", {
                          href: applied.spark_ui,
                          rel: "noopener noreferrer",
                          target: "_blank",
                          title: "The page of the query's newest run in Spark's own UI",
                          text: "Spark UI",
                      })
                    : el("span", {
                          class: "dim",
                          title: "The job names this address; TIDEMARK_LINK_HOSTS does not name its host, so it is no link",
                          text: `Spark UI: ${applied.spark_ui}`,
                      })),
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
                { class: `condition kind-${severity}` },
                icon(severity),
                el("span", {}, el("strong", { text: `${title}: ` }), conditionText(title, detail)),
            ),
        ),
    );
}

/**
 * Return the detail of a condition without the words of its title.
 * @param {string} title
 * @param {string} detail
 */
function conditionText(title, detail) {
    const said = `${title}: `.toLowerCase();
    return localTimes(detail.startsWith(said) ? detail.slice(said.length) : detail);
}

/**
 * Return the figures beside the verdict.
 * @param {StreamStatus} status
 * @param {Preview | null} now What the bound of now does; null before that is known.
 */
export function keyFigures(status, now) {
    return [budgetFigure(status), ...(now === null ? unknownFigures() : figuresOf(status, now))];
}

/** @param {StreamStatus} status */
function budgetFigure({ budget: left, slo }) {
    if (!left) return figure("Budget left", "–", slo ? "no report yet" : "no SLO is set");
    const kind = budgetKind(left.remaining_ppm);
    return figure(
        "Budget left",
        [budget(left.remaining_ppm), kind === "critical" && icon("critical")],
        `${about(left.bad_max)} lost of ${about(left.allowed)} allowed${left.provisional ? ", provisional" : ""}`,
        `kind-${kind}`,
    );
}

function unknownFigures() {
    return ["Mean latency", "State"].map((name) => figure(name, "–", "not known"));
}

/**
 * @param {StreamStatus} status
 * @param {Preview} now
 */
function figuresOf({ slo, live }, now) {
    const { latency_unknown: unknown, state_rows: rows, state_bytes: size } = now;
    const [latencyCap, stateCap] = [slo?.latency_cap_ms, slo?.state_cap_rows];
    const latencyMore = latencyCap
        ? `cap ${duration(latencyCap)}`
        : `at the ${live ? "effective bound" : "bound in use"}`;
    const stateMore = stateCap ? `cap ${about(stateCap)}` : size === null ? "not known" : bytes(size);
    return [
        figure("Mean latency", latency(now), unknown ? (latencyUnknown(unknown) ?? "not known") : latencyMore),
        figure("State", rows === null ? "–" : `${about(rows)} rows`, stateMore),
    ];
}

/**
 * @param {string} name
 * @param {Child} value
 * @param {string} more
 */
function figure(name, value, more, kind = "") {
    return el(
        "div",
        { class: "tile" },
        el("dt", { text: name }),
        el("dd", { class: `tile-value ${kind}` }, value),
        el("dd", { class: "tile-more", text: more }),
    );
}
