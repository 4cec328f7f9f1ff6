// Rollouts: the newest with what may be done about it, and those before it.

import { rolloutButtons } from "./actions.js";
import { Card } from "./card.js";
import { badge, el, figures, put } from "./dom.js";
import { bound, duration, moment, share, shares } from "./format.js";
import { gate, plural, rolloutState } from "./words.js";

/** @import { RolloutAnswer, RolloutPage } from "api" */
/** @import { Shell } from "./stream.js" */

/** @type {RolloutAnswer["state"][]} */
const STEPS = ["Recommended", "AwaitingApproval", "Published", "Acknowledged", "Effective", "Verified"];
const MAX_OLDER = 5;

/** The card. */
export class RolloutPanel {
    #card = new Card("Rollouts", "rollouts");
    node = this.#card.node;
    #path;
    #shell;

    /**
     * @param {string} path
     * @param {Shell} shell
     */
    constructor(path, shell) {
        this.#path = path;
        this.#shell = shell;
    }

    /** @param {RolloutPage} page */
    show({ rollouts: [newest, ...older] }) {
        this.#card.loaded();
        put(
            this.#card.body,
            newest
                ? this.#newest(newest)
                : el("p", {
                      class: "empty small",
                      text: "None yet: a bound is rolled out when it differs from the one in use, and never in mode Off.",
                  }),
            older.length > 0 &&
                figures(
                    [{ text: "" }, { text: "", class: "dim" }, { text: "", class: "number" }, { text: "" }],
                    older.slice(0, MAX_OLDER).map(olderRow),
                    { caption: "Earlier rollouts" },
                ),
        );
    }

    /** @param {RolloutAnswer} rollout */
    #newest(rollout) {
        const { kind, name } = rolloutState(rollout.state);
        const { approved, held_by: heldBy } = rollout;
        const buttons = rolloutButtons(this.#path, rollout, this.#shell);
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
                badge(kind, name),
                heldBy &&
                    !(heldBy === "Approval" && rollout.state === "AwaitingApproval") &&
                    badge("pause", gate(heldBy)),
            ),
            STEPS.includes(rollout.state) && stepper(rollout.state),
            el("p", { text: rollout.reason }),
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

/** @param {RolloutAnswer["state"]} state */
function stepper(state) {
    const steps = STEPS.filter((step) => step !== "AwaitingApproval" || step === state);
    const at = steps.indexOf(state);
    return el(
        "ol",
        { class: "stepper", "aria-label": "Progress" },
        steps.map((step, n) =>
            el("li", {
                class: n < at ? "past" : n === at ? "here" : null,
                "aria-current": n === at ? "step" : null,
                text: rolloutState(step).name,
            }),
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
function judgedText({ effective_us: effectiveUs, judged: { rows, late_max: late } }) {
    if (!effectiveUs) return "";
    if (!rows) return "Nothing is judged yet.";
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
