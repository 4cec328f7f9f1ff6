// What would happen under a bound, as the controller answers.

import { Away, get, query, Rejected } from "./api.js";
import { badge, el, put } from "./dom.js";
import { about, bytes, count, duration, latency, shares } from "./format.js";
import { latencyUnknown, plural, sentence } from "./words.js";

/** @import { Preview as PreviewAnswer } from "api" */
/** @import { Child } from "./dom.js" */

/** The figures of one bound (`node`), what they do not say in words, and the requests for them. */
export class Preview {
    node = el("div", { class: "preview", "aria-live": "polite" });
    words = el("div", { class: "preview-words" });
    #path;
    #shown;
    #ended = new AbortController();
    /** @type {number | null} The bound that is asked for. */
    #asked = null;
    /** @type {number | null} The bound to ask for next. */
    #wanted = null;

    /**
     * @param {string} path
     * @param {(summary: string) => void} shown Called with the figures in words.
     */
    constructor(path, shown) {
        this.#path = path;
        this.#shown = shown;
    }

    /** Say that there is nothing to ask for. */
    empty() {
        put(this.words);
        put(this.node, el("p", { class: "empty", text: "No curve yet: nothing was reported over the SLO's horizon." }));
    }

    /**
     * Ask for a bound; while another one is asked for, only the last of those that come meanwhile is asked for next.
     * @param {number} boundMs
     */
    async ask(boundMs) {
        this.node.classList.add("pending");
        this.#wanted = boundMs;
        if (this.#asked !== null) return;
        while (this.#wanted !== null && !this.#ended.signal.aborted) {
            this.#asked = this.#wanted;
            this.#wanted = null;
            await this.#fetch(this.#asked);
            this.#asked = null;
        }
        this.node.classList.remove("pending");
    }

    end() {
        this.#ended.abort();
    }

    /** @param {number} boundMs */
    async #fetch(boundMs) {
        try {
            /** @type {PreviewAnswer} */
            const answer = await get(query(`${this.#path}/preview`, { bound_ms: boundMs }), this.#ended.signal);
            put(this.node, figuresOf(answer));
            put(
                this.words,
                wordsOf(answer).map((text) => el("p", { text })),
            );
            const admitted = shares(answer.completeness_min_ppm, answer.completeness_max_ppm);
            if (this.#wanted === null) this.#shown(`${admitted} admitted, mean latency ${latency(answer)}`);
        } catch (error) {
            if (this.#ended.signal.aborted) return;
            if (!(error instanceof Away || error instanceof Rejected)) throw error;
            put(this.words);
            put(this.node, el("p", { class: "error", text: `There is no preview: ${error.message}.` }));
        }
    }
}

/**
 * Return what the figures do not say: how the job goes over to the bound, and what limits it or is not known.
 * @param {PreviewAnswer} answer
 */
function wordsOf({ transition, stands_still_ms: stillMs, windows_closing: closing, notes }) {
    const words = notes.map(sentence);
    if (transition === null) return words;
    if (closing) words.unshift(`${plural(closing, "window")} will close at once when the job takes it.`);
    if (stillMs) words.unshift(`The watermark will stand still for ${duration(stillMs)} when the job takes it.`);
    return words;
}

/** @param {PreviewAnswer} answer */
function figuresOf(answer) {
    return el(
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
    );
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
