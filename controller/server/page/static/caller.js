// Who calls, and what that allows: buttons that may not be used say why.

import { get, query } from "./api.js";
import { button } from "./dom.js";

/** @import { Caller as CallerAnswer } from "api" */
/** @import { Attributes } from "./dom.js" */

/** What the caller may do with one job, or with those in reach. */
export class Caller {
    #job;
    /** @type {CallerAnswer | null} Null until it is known: nothing is withheld before. */
    #answer = null;

    /** @param {string | null} job Null for all jobs in reach. */
    constructor(job) {
        this.#job = job;
    }

    /** @param {AbortSignal} signal */
    async refresh(signal) {
        this.#answer = await get(query("v1/caller", { job: this.#job }), signal);
    }

    /** Why the caller may not change anything; null when that is allowed. */
    get whyNot() {
        if (this.#answer === null || this.#answer.rights.includes("Operate")) return null;
        // A role over some jobs gives no right over the whole fleet, and other jobs are not shown.
        if (this.#job === null && ["operator", "admin"].includes(this.#answer.role ?? "")) return null;
        return `This takes the role operator or admin; ${this.#answer.name} has the role ${this.#answer.role ?? "none"}.`;
    }

    /**
     * Return a button that changes something. Where the caller may not, it says why and does nothing.
     * @param {string} text
     * @param {() => unknown} then
     * @param {Attributes} [attributes]
     */
    button(text, then, attributes = {}) {
        const why = this.whyNot;
        if (why === null) return button(text, then, attributes);
        // Not the attribute `disabled`: keyboards and screen readers must find the reason too.
        return button(text, () => {}, { ...attributes, "aria-disabled": "true", title: why, "aria-description": why });
    }
}
