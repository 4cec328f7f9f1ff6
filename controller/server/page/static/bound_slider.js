// A bound to try: a line to drag over the curve, and a field to write it in.

import { rounded, stepped } from "./curve_scales.js";
import { el, say } from "./dom.js";
import { duration, exactDuration, parseDuration } from "./format.js";

/** @import { CurvePlots } from "./curve_plots.js" */
/** @import { BoundScale } from "./curve_scales.js" */

/** @type {Record<string, number>} Steps by key. */
const SMALL_STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
/** @type {Record<string, number>} */
const LARGE_STEPS = { PageUp: 10, PageDown: -10 };
const SHIFTED = 5;
/** Between the line and the far edge of the bubble, in pixels, beside the bubble's own width. */
const BUBBLE_GAP = 24;

/** The slider (`node`) and the field; both show the same bound. */
export class BoundSlider {
    /** The bound, in milliseconds; null before the first curve. @type {number | null} */
    boundMs = null;
    /** Whether a person has moved it. */
    moved = false;
    /** Whether a pointer holds it. */
    dragged = false;
    #plots;
    #changed;
    #released;
    /** @type {BoundScale} */
    #scale = { maxMs: 0, bendMs: 1 };
    #bubble = el("strong", { class: "bubble", "aria-hidden": "true" });
    #error = el("span", { class: "error", id: "bound-to-try-error" });
    #field = el("input", {
        id: "bound-to-try",
        type: "text",
        class: "bound-field",
        autocomplete: "off",
        spellcheck: "false",
        "aria-describedby": "bound-to-try-error",
        on: { change: () => this.#onField() },
    });
    node = el(
        "div",
        {
            class: "slider",
            role: "slider",
            tabindex: "0",
            "aria-label": "Bound to try",
            "aria-orientation": "horizontal",
            "aria-valuemin": "0",
            on: {
                keydown: (event) => this.#onKey(event),
                pointerdown: (event) => this.#onDown(event),
                pointermove: (event) => this.#onMove(event),
                lostpointercapture: () => this.#onRelease(),
            },
        },
        el("span", { class: "knob", "aria-hidden": "true" }),
        this.#bubble,
    );
    fieldRow = el(
        "div",
        { class: "try" },
        el("label", { for: "bound-to-try", text: "If the bound were" }),
        this.#field,
        this.#error,
        el("span", { class: "hint", text: "Drag the line, use its arrow keys, or type it." }),
    );

    /**
     * @param {CurvePlots} plots
     * @param {{changed: () => void, released: () => void}} listeners Called when a person moves it, and lets go of it.
     */
    constructor(plots, { changed, released }) {
        this.#plots = plots;
        this.#changed = changed;
        this.#released = released;
    }

    /**
     * Take a new scale, and `boundMs` unless a person has moved the slider.
     * @param {BoundScale} scale
     * @param {number} boundMs
     */
    fit(scale, boundMs) {
        this.#scale = scale;
        if (!this.moved) this.boundMs = Math.round(boundMs);
        this.node.setAttribute("aria-valuemax", String(scale.maxMs));
    }

    /** Stand where the bound is on the plots. */
    place() {
        if (this.boundMs === null) return;
        const left = this.#plots.toPixels(this.boundMs);
        if (left === null) return;
        this.node.style.setProperty("--at", `${left}px`);
        say(this.#bubble, duration(this.boundMs));
        const room = this.#plots.node.clientWidth - BUBBLE_GAP - this.#bubble.offsetWidth;
        // On the side of the line where it has room.
        this.node.classList.toggle("near-end", left > room);
        this.node.setAttribute("aria-valuenow", String(this.boundMs));
        if (document.activeElement !== this.#field) this.#field.value = exactDuration(this.boundMs);
    }

    /** Say the bound, and what would happen under it, to a screen reader. */
    describe(effect = "") {
        this.node.setAttribute("aria-valuetext", `${exactDuration(this.boundMs)}${effect && `: ${effect}`}`);
    }

    /**
     * @param {number} ms
     * @param {number} [max]
     */
    #moveTo(ms, max = this.#scale.maxMs) {
        this.moved = true;
        this.boundMs = Math.round(Math.min(Math.max(ms, 0), max));
        this.#field.setAttribute("aria-invalid", "false");
        say(this.#error, "");
        this.place();
        this.describe();
        this.#changed();
    }

    /** @param {PointerEvent} event */
    #onDown(event) {
        if (event.button !== 0) return;
        this.node.setPointerCapture(event.pointerId);
        this.dragged = true;
        this.node.focus({ preventScroll: true });
        this.#moveTo(rounded(this.#plots.toMs(event.clientX)));
        event.preventDefault();
    }

    /** @param {PointerEvent} event */
    #onMove(event) {
        if (this.node.hasPointerCapture(event.pointerId)) this.#moveTo(rounded(this.#plots.toMs(event.clientX)));
    }

    #onRelease() {
        this.dragged = false;
        this.#released();
    }

    /** @param {KeyboardEvent} event */
    #onKey(event) {
        const small = SMALL_STEPS[event.key];
        const steps = small ? small * (event.shiftKey ? SHIFTED : 1) : LARGE_STEPS[event.key];
        if (event.key === "Home") this.#moveTo(0);
        else if (event.key === "End") this.#moveTo(this.#scale.maxMs);
        else if (steps && this.boundMs !== null) this.#moveTo(stepped(this.#scale, this.boundMs, steps));
        else return;
        event.preventDefault();
        event.stopPropagation();
    }

    #onField() {
        const ms = parseDuration(this.#field.value);
        if (ms === null) {
            this.#field.setAttribute("aria-invalid", "true");
            say(this.#error, "Write it like 8.03 s, 450 ms, 2 min or 1h30m.");
            return;
        }
        // A person may write a bound that is wider than the plots.
        this.#moveTo(ms, Infinity);
        this.#field.value = exactDuration(this.boundMs);
    }
}
