// The bound on its way to the job: its steps, the newest rollout with what may be done about it, and those before it.

import { rolloutButtons } from "./actions.js";
import { pathOf, sinceProposed } from "./bound_path.js";
import { Card } from "./card.js";
import { badge, el, figures, put } from "./dom.js";
import { bound, duration, moment, share, shares } from "./format.js";
import { gate, plural, rolloutState, sentence } from "./words.js";

/** @import { RolloutAnswer, RolloutPage, StreamStatus } from "api" */
/** @import { PathStep } from "./bound_path.js" */
/** @import { Shell } from "./stream.js" */

const MAX_OLDER = 5;

/** The card. */
export class RolloutPanel {
    #card = new Card("The bound on its way", "rollouts");
    node = this.#card.node;
    #path;
    #shell;
    /** What is drawn: buttons are left in place while nothing has changed, so that no click is lost. */
    #drawn = "";

    /**
     * @param {string} path
     * @param {Shell} shell
     */
    constructor(path, shell) {
        this.#path = path;
        this.#shell = shell;
    }

    /**
     * @param {RolloutPage} page
     * @param {StreamStatus} status
     */
    show({ rollouts: [newest, ...older] }, status) {
        this.#card.loaded();
        const steps = pathOf(status, newest);
        const since = newest ? sinceProposed(status, newest) : "";
        const drawn = JSON.stringify([newest, older, steps, since, this.#shell.caller.whyNot]);
        if (drawn === this.#drawn) return;
        this.#drawn = drawn;
        put(
            this.#card.body,
            stepper(steps),
            newest
                ? this.#newest(newest, since)
                : el("p", {
                      class: "empty small",
                      text: "No rollout yet: a bound is rolled out when it differs from the one in use, and never in mode Off.",
                  }),
            older.length > 0 &&
                figures(
                    [{ text: "" }, { text: "", class: "dim" }, { text: "", class: "number" }, { text: "" }],
                    older.slice(0, MAX_OLDER).map(olderRow),
                    { caption: "Earlier rollouts" },
                ),
        );
    }

    /**
     * @param {RolloutAnswer} rollout
     * @param {string} since What has been recommended since it was proposed.
     */
    #newest(rollout, since) {
        const { kind, name } = rolloutState(rollout.state);
        const { approved, held_by: heldBy } = rollout;
        const buttons = rolloutButtons(this.#path, rollout, this.#shell);
        const waits = rollout.state === "Published" && rollout.mode === "OnRestart";
        return el(
            "div",
            { class: "rollout" },
            el(
                "p",
                { class: "row" },
                el("strong", { text: `#${rollout.id}` }),
                el(
                    "span",
                    { class: "rollout-bounds" },
                    bound(rollout.from_bound_ms),
                    " → ",
                    el("strong", { text: bound(rollout.to_bound_ms) }),
                ),
                badge(kind, waits ? "waits for the next start of the job" : name),
                heldBy &&
                    !(heldBy === "Approval" && rollout.state === "AwaitingApproval") &&
                    badge("pause", gate(heldBy)),
            ),
            !waits && el("p", { text: `${sentence(rollout.reason)} ${since}` }),
            el("p", { class: "hint", text: `${predictionText(rollout)} ${judgedText(rollout)}` }),
            approved &&
                el("p", {
                    class: "hint",
                    text: `Approved ${moment(approved.at_us)}${approved.by ? ` by ${approved.by}` : ""}: ${approved.reason}`,
                }),
            buttons.length > 0 && el("p", { class: "row" }, buttons),
        );
    }
}

/** @param {PathStep[]} steps */
function stepper(steps) {
    return el(
        "ol",
        { class: "stepper", "aria-label": "The way of the bound" },
        steps.map(({ name, title, text, place }) =>
            el(
                "li",
                { class: place, title, "aria-current": place === "here" ? "step" : null },
                el("span", { class: "bound-ms", text }),
                el("span", { class: "bound-name", text: name }),
            ),
        ),
    );
}

/** @param {RolloutAnswer} rollout */
function predictionText({ predicted }) {
    if (!predicted.rows) return "Nothing could be predicted.";
    const latency = predicted.latency_wall_ms === null ? "not known" : duration(predicted.latency_wall_ms);
    return `Predicted: ${shares(predicted.min_ppm, predicted.max_ppm)} admitted, mean latency ${latency}.`;
}

/** @param {RolloutAnswer} rollout */
function judgedText({ state, effective_us: effectiveUs, judged: { rows, late_max: late } }) {
    if (!effectiveUs) return "";
    if (!rows) return state === "Effective" ? "Nothing is judged yet." : "";
    return `Of ${plural(rows, "row")} judged, ${share(Math.floor(((rows - late) / rows) * 1e6))} were admitted.`;
}

/** @param {RolloutAnswer} rollout */
function olderRow(rollout) {
    const { kind, name } = rolloutState(rollout.state);
    return {
        title: rollout.reason,
        cells: [
            `#${rollout.id}`,
            moment(rollout.published_us ?? rollout.created_us),
            `${bound(rollout.from_bound_ms)} → ${bound(rollout.to_bound_ms)}`,
            badge(kind, name),
        ],
    };
}
