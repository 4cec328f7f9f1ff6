// The verdict on a stream, with its one action and its key figures.

import { confirmPause, confirmRollout } from "./actions.js";
import { button, el, icon, put } from "./dom.js";
import { openPinForm } from "./pin_form.js";
import { openPolicyForm } from "./policy_form.js";
import { openSloForm } from "./slo_form.js";
import { keyFigures } from "./stream_head.js";
import { boundNowOf, verdictOf } from "./verdict.js";

/** @import { StreamStatus } from "api" */
/** @import { Shell } from "./stream.js" */
/** @import { Action, Outcomes } from "./verdict.js" */

/** The card. */
export class VerdictPanel {
    node = el("section", { class: "card verdict", "aria-label": "Verdict" });
    #path;
    #shell;
    #tryBound;
    /** @type {StreamStatus | null} */
    #status = null;
    /** @type {Outcomes} */
    #outcomes = { now: null, next: null };

    /**
     * @param {string} path
     * @param {Shell} shell
     * @param {() => void} tryBound Leads to the curve.
     */
    constructor(path, shell, tryBound) {
        this.#path = path;
        this.#shell = shell;
        this.#tryBound = tryBound;
    }

    /** @param {StreamStatus} status */
    show(status) {
        this.#status = status;
        // What another bound did says nothing about this one.
        if (this.#outcomes.now?.bound_ms !== boundNowOf(status)) this.#outcomes = { now: null, next: null };
        this.#fill();
    }

    /** @param {Outcomes} outcomes */
    showOutcomes(outcomes) {
        this.#outcomes = outcomes;
        this.#fill();
    }

    /** Open the dialog about the rollout that waits, if one may be approved. */
    review() {
        const rollout = this.#status?.rollout;
        if (rollout?.may.includes("approve")) confirmRollout(this.#path, rollout, "approve", this.#shell);
    }

    #fill() {
        if (this.#status === null) return;
        const { kind, text, action } = verdictOf(this.#status, this.#outcomes);
        const focused = this.node.contains(document.activeElement);
        this.node.className = `card verdict kind-${kind}`;
        put(
            this.node,
            el(
                "div",
                { class: "verdict-text" },
                icon(kind),
                el("p", { class: "verdict-sentence", text }),
                this.#button(action, this.#status),
            ),
            el("dl", { class: "tiles" }, keyFigures(this.#status, this.#outcomes.now)),
        );
        if (focused) this.node.querySelector("button")?.focus();
    }

    /**
     * @param {Action} action
     * @param {StreamStatus} status
     */
    #button(action, status) {
        const [path, shell] = [this.#path, this.#shell];
        const primary = { class: "button primary" };
        switch (action) {
            case "slo": {
                const text = status.slo ? "Change the SLO …" : "Set an SLO …";
                return shell.caller.button(text, () => openSloForm(path, status, shell), primary);
            }
            case "review":
                return shell.caller.button("Review …", () => this.review(), primary);
            case "unpin":
                return shell.caller.button("Take the pin away …", () => openPinForm(path, status, shell), primary);
            case "resume":
                return shell.caller.button("Resume …", () => confirmPause(path, true, shell), primary);
            case "steer": {
                const open = () => openPolicyForm(path, "mode", status.in_use_bound_ms, shell);
                return shell.caller.button("Change the mode …", open, primary);
            }
            case "try":
                return button("Try another bound", () => this.#tryBound());
        }
    }
}
