// A change that is tried before it is made: first its consequences are shown, then it is set with a reason.

import { reasonField } from "./dialog.js";
import { button, el, icon, put, submitButton } from "./dom.js";

/** @import { Dialog } from "./dialog.js" */
/** @import { Child } from "./dom.js" */
/** @import { Shell } from "./stream.js" */

const MAX_REASON = 500;

/**
 * @template V, A
 * @typedef {object} Change
 * @property {string} verb What the button that sets it says.
 * @property {() => V | null} read What is written; null after showing what cannot be read.
 * @property {(values: V, options: Record<string, string>) => Promise<A | undefined>} send Undefined after showing why it
 * failed.
 * @property {(answer: A) => Child[] | Promise<Child[]>} consequences What the dry run found.
 * @property {(answer: A) => string} done The message once it is set.
 */

/**
 * The two steps in a dialog: it has the buttons, and `reason` and `consequences` to be placed in its body.
 * @template V, A
 */
export class DryRun {
    reason = reasonField(MAX_REASON);
    consequences = el("div", { class: "consequences", role: "status" });
    #dialog;
    #shell;
    #change;
    /** Whether the consequences of what is written are shown. */
    #tried = false;

    /**
     * @param {Dialog} dialog
     * @param {Shell} shell
     * @param {Change<V, A>} change
     */
    constructor(dialog, shell, change) {
        this.#dialog = dialog;
        this.#shell = shell;
        this.#change = change;
        dialog.form.addEventListener("submit", () => this.submit());
        put(dialog.buttons, this.#cancel());
    }

    /** Begin again, because something else is written now. */
    changed() {
        this.#tried = false;
        put(this.consequences);
        put(this.#dialog.buttons, this.#cancel(), submitButton("Show the consequences"));
    }

    /** Take the next step. */
    async submit() {
        const values = this.#change.read();
        if (values === null) return;
        if (this.#tried) await this.#set(values);
        else await this.#try(values);
    }

    #cancel() {
        return button("Cancel", () => this.#dialog.close());
    }

    /** @param {V} values */
    async #try(values) {
        const answer = await this.#change.send(values, { dryRun: "All" });
        if (answer === undefined) return;
        const found = await this.#change.consequences(answer);
        this.#tried = true;
        put(
            this.consequences,
            el(
                "div",
                { class: "problem kind-info" },
                icon("info"),
                el("div", {}, el("strong", { text: "Consequences" }), found),
            ),
        );
        const set = submitButton(this.#change.verb);
        put(
            this.#dialog.buttons,
            button("Back", () => this.changed()),
            set,
        );
        set.focus();
    }

    /** @param {V} values */
    async #set(values) {
        const reason = this.reason.read();
        if (reason === null) return;
        const answer = await this.#change.send(values, { reason });
        if (answer === undefined) return;
        this.#dialog.close();
        this.#shell.done(this.#change.done(answer));
        this.#shell.refresh();
    }
}
