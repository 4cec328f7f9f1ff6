// What would happen under a bound, as the controller answers.

import { Away, get, query, Rejected } from "./api.js";
import { badge, el, put } from "./dom.js";
import { about, bytes, count, latency, shares } from "./format.js";
import { latencyUnknown, sentence } from "./words.js";

/** @import { Preview as PreviewAnswer } from "api" */
/** @import { Child } from "./dom.js" */

/** The figures of one bound, and the request for them. */
export class Preview {
    node = el("div", { class: "preview", "aria-live": "polite" });
    #path;
    #shown;
    #timer = 0;
    /** @type {AbortController | null} */
    #request = null;
    /** @type {number | null} */
    #shownMs = null;

    /**
     * @param {string} path
     * @param {(summary: string) => void} shown Called with the figures in a few words.
     */
    constructor(path, shown) {
        this.#path = path;
        this.#shown = shown;
    }

    /** Say that there is nothing to ask for. */
    empty() {
        put(this.node, el("p", { class: "empty", text: "No curve yet: nothing was reported over the SLO's horizon." }));
    }

    /**
     * Ask for a bound after a while, unless another one is asked for before.
     * @param {number} boundMs
     * @param {number} afterMs
     */
    ask(boundMs, afterMs) {
        clearTimeout(this.#timer);
        if (this.#shownMs !== boundMs) this.node.classList.add("waiting");
        this.#timer = setTimeout(() => this.#fetch(boundMs), afterMs);
    }

    end() {
        clearTimeout(this.#timer);
        this.#request?.abort();
    }

    /** @param {number} boundMs */
    async #fetch(boundMs) {
        this.#request?.abort();
        const request = new AbortController();
        this.#request = request;
        try {
            /** @type {PreviewAnswer} */
            const answer = await get(query(`${this.#path}/preview`, { bound_ms: boundMs }), request.signal);
            this.#shownMs = boundMs;
            put(this.node, contents(answer));
            const admitted = shares(answer.completeness_min_ppm, answer.completeness_max_ppm);
            this.#shown(`${admitted} admitted, mean latency ${latency(answer)}`);
        } catch (error) {
            if (request.signal.aborted) return;
            if (!(error instanceof Away || error instanceof Rejected)) throw error;
            put(this.node, el("p", { class: "error", text: `There is no preview: ${error.message}.` }));
        }
        this.node.classList.remove("waiting");
    }
}

/** @param {PreviewAnswer} answer */
function contents(answer) {
    return [
        el(
            "dl",
            { class: "figures-row" },
            figure(
                "rows admitted",
                shares(answer.completeness_min_ppm, answer.completeness_max_ppm),
                verdict(answer.meets_target, "meets the target", "misses the target"),
            ),
            figure("late rows a day", about(answer.late_a_day), `${count(answer.late)} of ${about(answer.rows)} seen`),
            figure(
                "mean latency",
                latency(answer),
                verdict(answer.meets_latency_cap, "within the cap", "above the cap") ??
                    latencyUnknown(answer.latency_unknown),
            ),
            figure(
                "state",
                answer.state_rows === null ? "–" : `${about(answer.state_rows)} rows`,
                verdict(answer.meets_state_cap, "within the cap", "above the cap") ??
                    (answer.state_bytes === null ? "not known" : bytes(answer.state_bytes)),
            ),
        ),
        el("p", { class: "sentence", text: sentence(answer.text) }),
        answer.transition && el("p", { class: "hint", text: sentence(answer.transition) }),
    ];
}

/**
 * @param {string} name
 * @param {string} value
 * @param {Child} more
 */
function figure(name, value, more) {
    return el(
        "div",
        {},
        el("dt", { text: name }),
        el("dd", {}, el("span", { class: "figure", text: value }), more && el("span", { class: "figure-more" }, more)),
    );
}

/**
 * @param {boolean | null} meets
 * @param {string} yes
 * @param {string} no
 */
function verdict(meets, yes, no) {
    return meets === null ? null : badge(meets ? "ok" : "critical", meets ? yes : no);
}
