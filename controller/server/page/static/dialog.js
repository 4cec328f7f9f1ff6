// Dialogs that do something: the action, the reason for it, and the controller's message when it fails.

import { Away, Rejected } from "./api.js";
import { button, el, icon, put, refocus } from "./dom.js";

/** @import { PageShell } from "./stream.js" */

const FORBIDDEN = 403;
let made = 0;

/** A modal dialog with a form; it is removed once it is closed. */
export class Dialog {
    body = el("div", { class: "dialog-body" });
    buttons = el("p", { class: "row end" });
    #problem = el("div", { class: "dialog-problem", role: "alert" });
    form = el(
        "form",
        { novalidate: true, on: { submit: (event) => this.#onSubmit(event) } },
        this.body,
        this.#problem,
        this.buttons,
    );
    /** @type {HTMLDialogElement} */
    #node;
    #shell;
    /** How many attempts are under way, and the end of the last one. */
    #attempts = 0;
    /** @type {Promise<unknown>} */
    #last = Promise.resolve();

    /**
     * @param {string} title
     * @param {PageShell} shell
     * @param {{wide?: boolean}} [options]
     */
    constructor(title, shell, { wide = false } = {}) {
        made += 1;
        const id = `dialog-${made}`;
        this.#shell = shell;
        this.#node = el(
            "dialog",
            {
                class: `dialog ${wide ? "dialog-wide" : ""}`,
                "aria-labelledby": id,
                on: { close: () => this.#node.remove() },
            },
            el("h2", { id, text: title }),
            this.form,
        );
    }

    open() {
        const before = document.activeElement;
        this.#node.addEventListener("close", () => before instanceof HTMLElement && refocus(before));
        document.body.append(this.#node);
        this.#node.showModal();
    }

    close() {
        this.#node.close();
    }

    get isOpen() {
        return this.#node.open;
    }

    /**
     * Do something, after what was begun before. When it fails, show why and return undefined. The dialog can be closed
     * meanwhile; it cannot be submitted, but no control is disabled, because that would take the focus from it.
     * @template T
     * @param {() => Promise<T>} action
     * @param {(error: Rejected) => Promise<boolean>} [handled] Whether it has dealt with a rejection itself.
     * @returns {Promise<T | undefined>}
     */
    async attempt(action, handled = () => Promise.resolve(false)) {
        this.#showAttempts(1);
        const done = this.#last.then(() => this.#attempt(action, handled));
        this.#last = done.catch(() => {});
        try {
            return await done;
        } finally {
            this.#showAttempts(-1);
        }
    }

    /**
     * @template T
     * @param {() => Promise<T>} action
     * @param {(error: Rejected) => Promise<boolean>} handled
     */
    async #attempt(action, handled) {
        put(this.#problem);
        try {
            return await action();
        } catch (error) {
            if (error instanceof Rejected) {
                if (!(await handled(error))) this.#showRejected(error);
            } else if (error instanceof Away) {
                const text = `${error.message}; it may have been done or not. Look, and try again.`;
                this.#show(`${error.who} does not answer`, el("p", { text }));
            } else throw error;
            return undefined;
        }
    }

    /** @param {SubmitEvent} event */
    #onSubmit(event) {
        event.preventDefault();
        if (this.#attempts > 0) event.stopImmediatePropagation();
    }

    /** @param {1 | -1} more */
    #showAttempts(more) {
        this.#attempts += more;
        const busy = String(this.#attempts > 0);
        this.form.setAttribute("aria-busy", busy);
        for (const submit of this.buttons.querySelectorAll("[type=submit]")) submit.setAttribute("aria-disabled", busy);
    }

    /** @param {Rejected} error */
    #showRejected(error) {
        const { title = "Rejected", errors } = error.problem;
        this.#show(
            title,
            el("p", { text: error.message }),
            (errors ?? [])
                .filter((item) => !error.message.includes(item.detail))
                .map((item) => el("p", { text: `${item.pointer}: ${item.detail}` })),
            error.status === FORBIDDEN &&
                el(
                    "p",
                    { class: "row" },
                    button("Use another token", () => this.#useAnotherToken(), { class: "button small" }),
                ),
        );
    }

    /**
     * @param {string} title
     * @param {import("./dom.js").Child[]} more
     */
    #show(title, ...more) {
        put(
            this.#problem,
            el(
                "div",
                { class: "problem kind-critical" },
                icon("critical"),
                el("div", {}, el("strong", { text: title }), more),
            ),
        );
    }

    #useAnotherToken() {
        this.close();
        this.#shell.askForToken();
    }
}

/**
 * Return a field for a reason; `read()` returns the reason, or null after saying that one is needed.
 * @param {number} maxLength
 */
export function reasonField(maxLength) {
    made += 1;
    const id = `reason-${made}`;
    const error = el("span", { class: "error", id: `${id}-error` });
    const field = el("textarea", {
        id,
        maxlength: maxLength,
        rows: "2",
        "aria-describedby": `${id}-error`,
        placeholder: "INC-1042: late rows from the new region",
        on: { input: () => showError("") },
    });
    /** @param {string} text */
    function showError(text) {
        field.setAttribute("aria-invalid", String(text !== ""));
        error.textContent = text;
    }
    return {
        node: el("div", { class: "field" }, el("label", { for: id, text: "Why" }), field, error),
        read() {
            const reason = field.value.replace(/\s+/g, " ").trim();
            if (reason) return reason;
            showError("Say why: the decision log keeps it for whoever comes later.");
            field.focus();
            return null;
        },
    };
}
