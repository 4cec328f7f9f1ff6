// Dialogs that do something: what will be done, why, and what the controller says when it does not do it.

import { Away, Refused } from "./api.js";
import { button, el, icon, put } from "./dom.js";

const FORBIDDEN = 403;
let count = 0;

/** A modal dialog with a form; it is gone once it is closed. */
export class Dialog {
    constructor(title, { wide = false, shell }) {
        count += 1;
        const id = `dialog-${count}`;
        this.shell = shell;
        this.body = el("div", { class: "dialog-body" });
        this.problem = el("div", { class: "dialog-problem", role: "alert" });
        this.buttons = el("p", { class: "row end" });
        this.form = el(
            "form",
            { novalidate: true, on: { submit: (event) => event.preventDefault() } },
            this.body,
            this.problem,
            this.buttons,
        );
        this.node = el(
            "dialog",
            {
                class: `dialog ${wide ? "dialog-wide" : ""}`,
                "aria-labelledby": id,
                on: { close: () => this.node.remove() },
            },
            el("h2", { id, text: title }),
            this.form,
        );
    }

    open() {
        const before = document.activeElement;
        this.node.addEventListener("close", () => before?.isConnected && before.focus());
        document.body.append(this.node);
        this.node.showModal();
    }

    close() {
        this.node.close();
    }

    /** Do `act`; when the controller refuses, show why. Returns what it gave, undefined when it failed. */
    async attempt(act, { refused = null } = {}) {
        const controls = [...this.buttons.querySelectorAll("button")];
        for (const control of controls) control.disabled = true;
        put(this.problem);
        try {
            return await act();
        } catch (error) {
            if (refused && error instanceof Refused && (await refused(error))) return undefined;
            this.show(error);
            return undefined;
        } finally {
            for (const control of controls) control.disabled = false;
        }
    }

    /** Show what went wrong, and the way out. */
    show(error) {
        if (!(error instanceof Refused || error instanceof Away)) throw error;
        put(
            this.problem,
            el(
                "div",
                { class: "problem" },
                icon("bad"),
                el(
                    "div",
                    {},
                    el("strong", {
                        text:
                            error instanceof Away
                                ? "The controller does not answer"
                                : (error.problem.title ?? "Refused"),
                    }),
                    el("p", {
                        text:
                            error instanceof Away
                                ? `${error.message}; whether it was done is not known. Look, and try again.`
                                : error.message,
                    }),
                    (error.problem?.errors ?? [])
                        .filter((item) => !error.message.includes(item.detail))
                        .map((item) => el("p", { text: `${item.pointer}: ${item.detail}` })),
                    error.status === FORBIDDEN &&
                        el(
                            "p",
                            { class: "row" },
                            button("Use another token", () => this.#anotherToken(), { class: "button small" }),
                        ),
                ),
            ),
        );
    }

    #anotherToken() {
        this.close();
        this.shell.askForToken();
    }
}

/** A field for a reason; `read()` returns it, or null after saying that one is needed. */
export function reasonField({ most, needed = true }) {
    count += 1;
    const id = `reason-${count}`;
    const told = el("span", { class: "error", id: `${id}-told` });
    const field = el("textarea", {
        id,
        maxlength: String(most),
        rows: "2",
        "aria-describedby": `${id}-told`,
        placeholder: "INC-1042: late rows from the new region",
    });
    field.addEventListener("input", () => {
        field.setAttribute("aria-invalid", "false");
        told.textContent = "";
    });
    return {
        node: el(
            "div",
            { class: "field" },
            el("label", { for: id, text: needed ? "Why" : "Why (for the log)" }),
            field,
            told,
        ),
        read() {
            const reason = field.value.replace(/\s+/g, " ").trim();
            if (reason || !needed) return reason;
            field.setAttribute("aria-invalid", "true");
            told.textContent = "Say why: it stays in the log for whoever comes later.";
            field.focus();
            return null;
        },
    };
}
