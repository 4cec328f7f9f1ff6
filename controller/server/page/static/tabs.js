// The parts of a stream's view: on a narrow screen one is shown at a time, on a wide one all of them.

import { el } from "./dom.js";

/** @type {[string, string][]} Name in the address, and on the button. */
const TABS = [
    ["now", "Now"],
    ["steer", "Steering"],
    ["history", "History"],
    ["log", "Log"],
];

/** The buttons (`node`), and the part that they choose for `place`. */
export class Tabs {
    node;
    #place;
    #changed;
    #shown;

    /**
     * @param {HTMLElement} place Its `data-tab` names what is shown of it.
     * @param {string | undefined} shown
     * @param {() => void} changed Called when a person chooses another one.
     */
    constructor(place, shown, changed) {
        this.#place = place;
        this.#changed = changed;
        this.#shown = TABS.some(([name]) => name === shown) ? /** @type {string} */ (shown) : TABS[0][0];
        this.node = el(
            "div",
            { class: "segments tabs", role: "group", "aria-label": "Part of the view" },
            TABS.map(([name, text]) =>
                el("button", { type: "button", data: { tab: name }, text, on: { click: () => this.show(name) } }),
            ),
        );
        this.#mark();
    }

    /** What the address says of it. */
    get option() {
        return this.#shown === TABS[0][0] ? "" : this.#shown;
    }

    /** @param {string} name */
    show(name) {
        if (name === this.#shown) return;
        this.#shown = name;
        this.#mark();
        this.#changed();
    }

    #mark() {
        this.#place.dataset.shown = this.#shown;
        for (const one of this.node.querySelectorAll("button")) {
            one.setAttribute("aria-pressed", String(one.dataset.tab === this.#shown));
        }
    }
}
