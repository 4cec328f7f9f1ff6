// What a person decides about a stream: SLO, mode, limits, approval, gates, pause and pin, each changed with a dry run first.

import { pauseButton } from "./actions.js";
import { Card } from "./card.js";
import { el, put } from "./dom.js";
import { duration, moment, target } from "./format.js";
import { pinButton } from "./pin_form.js";
import { openPolicyForm } from "./policy_form.js";
import { openSloForm } from "./slo_form.js";
import { MODES, policyWord } from "./words.js";

/** @import { PolicyAnswer, StreamStatus } from "api" */
/** @import { PolicyPart } from "./policy_form.js" */
/** @import { Shell } from "./stream.js" */

/** The card. */
export class SteeringPanel {
    #card = new Card("Steering", "steering");
    node = this.#card.node;
    #path;
    #shell;
    /** What is drawn: buttons are left in place while nothing has changed, so that no click is lost. */
    #drawn = "";
    /** @type {StreamStatus | null} */
    #status = null;

    /**
     * @param {string} path
     * @param {Shell} shell
     */
    constructor(path, shell) {
        this.#path = path;
        this.#shell = shell;
    }

    /**
     * @param {PolicyAnswer} policy
     * @param {StreamStatus} status
     */
    show(policy, status) {
        this.#card.loaded();
        this.#status = status;
        const paused = status.conditions.some((one) => one.type === "Paused");
        const drawn = JSON.stringify([
            policy,
            status.slo,
            status.pin,
            paused,
            status.frozen_until_us,
            this.#shell.caller.whyNot,
        ]);
        if (drawn === this.#drawn) return;
        this.#drawn = drawn;
        put(
            this.#card.body,
            el(
                "dl",
                { class: "steering" },
                this.#row("SLO", sloText(status), "", this.#sloButton(status)),
                this.#row("Mode", policy.mode, MODES[policy.mode], this.#change("mode", "Change the mode …")),
                this.#row("Limits", limitsText(policy), "", this.#change("limits", "Change the limits …")),
                this.#row(
                    "Approval",
                    policyWord(policy.approval),
                    "",
                    this.#change("approval", "Change the approval …"),
                ),
                this.#row(
                    "Gates",
                    policy.gates.join(", ") || "none",
                    "",
                    this.#change("gates", "Change the outside gates …"),
                ),
                this.#row("Rollouts", rolloutsText(paused, status), "", pauseButton(this.#path, paused, this.#shell)),
                this.#row(
                    "Pin",
                    status.pin ? `to ${status.pin.to === "Off" ? "its own bound" : "its ceiling"}` : "none",
                    status.pin?.reason ?? "",
                    pinButton(this.#path, status.pin, () => this.#status ?? status, this.#shell),
                ),
            ),
        );
    }

    /**
     * @param {string} name
     * @param {string} value
     * @param {string} title
     * @param {Element} control
     */
    #row(name, value, title, control) {
        return el(
            "div",
            {},
            el("dt", { text: name }),
            el("dd", { title: title || null, text: value }),
            el("dd", {}, control),
        );
    }

    /** @param {StreamStatus} status */
    #sloButton(status) {
        const { slo } = status;
        const open = () => openSloForm(this.#path, this.#status ?? status, this.#shell);
        const label = slo ? "Change the SLO …" : "Set an SLO";
        return this.#shell.caller.button(slo ? "Change …" : "Set …", open, {
            class: "button small",
            "aria-label": label,
        });
    }

    /**
     * @param {PolicyPart} part
     * @param {string} label
     */
    #change(part, label) {
        return this.#shell.caller.button(
            "Change …",
            () => openPolicyForm(this.#path, part, this.#status?.in_use_bound_ms ?? null, this.#shell),
            { class: "button small", "aria-label": label },
        );
    }
}

/** @param {StreamStatus} status */
function sloText({ slo }) {
    return slo === null ? "none" : `${target(slo.target_ppm)} over ${duration(slo.window_ms)}`;
}

/**
 * @param {boolean} paused
 * @param {StreamStatus} status
 */
function rolloutsText(paused, { frozen_until_us: frozenUs }) {
    if (paused) return "paused";
    return frozenUs === null ? "on" : `no narrowing until ${moment(frozenUs)}`;
}

/** @param {PolicyAnswer} policy */
function limitsText({ min_bound_ms: min, max_bound_ms: max }) {
    if (max !== null && min === max) return `held at ${duration(min)}`;
    if (!min && max === null) return "none";
    if (max === null) return `at least ${duration(min)}`;
    return min ? `${duration(min)} to ${duration(max)}` : `at most ${duration(max)}`;
}
