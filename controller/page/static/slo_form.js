// The form that sets an SLO. It shows the consequences first, and a conflict with somebody else side by side.

import { get, getTagged, query, Rejected, send } from "./api.js";
import { beforeAfter } from "./before_after.js";
import { Dialog } from "./dialog.js";
import { button, el, figures, icon, put } from "./dom.js";
import { DryRun } from "./dry_run.js";
import { duration, moment, target } from "./format.js";
import { fieldsOf, parsed, worded, written } from "./slo_fields.js";

/** @import { SloAnswer, SloSet, StreamStatus } from "api" */
/** @import { Field, Value, Values } from "./slo_fields.js" */
/** @import { Shell } from "./stream.js" */
/** @typedef {{value: SloAnswer | null, etag: string | null}} Read The SLO as it is; null for none */

const NOT_FOUND = 404;
const STALE = new Set([412, 428]);

/**
 * Open the form.
 * @param {string} path Path of the stream.
 * @param {StreamStatus} status As far as the page knows.
 * @param {Shell} shell
 */
export async function openSloForm(path, status, shell) {
    const dialog = new Dialog("Set the SLO", shell, { wide: true });
    const form = new SloForm(path, status, dialog, shell);
    dialog.open();
    await form.load(status.slo !== null);
}

class SloForm {
    #path;
    #dialog;
    #run;
    /** @type {Field[]} */
    #fields = [];
    /** @type {Read} What the person began with. */
    #base = { value: null, etag: null };
    /** @type {Map<string, {field: Field, control: HTMLInputElement | HTMLSelectElement, error: Element}>} */
    #controls = new Map();

    /**
     * @param {string} path
     * @param {StreamStatus} status
     * @param {Dialog} dialog
     * @param {Shell} shell
     */
    constructor(path, status, dialog, shell) {
        this.#path = path;
        this.#dialog = dialog;
        /** @type {DryRun<Values, SloSet>} */
        this.#run = new DryRun(dialog, shell, {
            verb: "Set the SLO",
            read: () => this.#values(),
            send: (values, options) => this.#send(values, options),
            consequences: (answer) => consequencesOf(path, status.in_use_bound_ms, answer),
            done: (answer) => `The SLO is set: ${target(answer.target_ppm)}, generation ${answer.generation}.`,
        });
        dialog.form.addEventListener("input", ({ target: control }) => {
            if (control instanceof Element && control.closest(".slo-fields")) this.#run.changed();
        });
        put(dialog.body, el("p", { class: "dim", text: "Reading the SLO …" }));
    }

    /** @param {boolean} isSet */
    async load(isSet) {
        const found = await this.#dialog.attempt(async () => {
            this.#fields = fieldsOf(await get("openapi.json"));
            // Without an SLO there is nothing to read; if somebody sets one meanwhile, the write meets a conflict.
            return isSet ? this.#read() : this.#base;
        });
        if (found) this.#build(found);
    }

    /** @returns {Promise<Read>} */
    async #read() {
        try {
            return await getTagged(`${this.#path}/slo`);
        } catch (error) {
            if (
                error instanceof Rejected &&
                error.status === NOT_FOUND &&
                error.problem.type?.endsWith("slo-not-set")
            ) {
                return { value: null, etag: null };
            }
            throw error;
        }
    }

    /** @param {Read} found */
    #build(found) {
        this.#base = found;
        const { value } = found;
        const shown = value ? valuesOf(value) : Object.fromEntries(this.#fields.map((one) => [one.name, one.default]));
        const usual = this.#fields.filter((field) => !field.rare);
        const rare = this.#fields.filter((field) => field.rare);
        put(
            this.#dialog.body,
            el(
                "p",
                { class: "hint" },
                value
                    ? `Generation ${value.generation}, set ${moment(value.updated_us)}.`
                    : "None is set yet. Without one, nothing is recommended.",
            ),
            el(
                "div",
                { class: "slo-fields" },
                usual.map((field) => this.#field(field, shown[field.name])),
            ),
            el(
                "details",
                { class: "slo-more", open: rare.some((field) => shown[field.name] !== field.default) },
                el("summary", { text: "Objective, caps, window, confidence" }),
                el(
                    "div",
                    { class: "slo-fields" },
                    rare.map((field) => this.#field(field, shown[field.name])),
                ),
            ),
            this.#run.reason.node,
            this.#run.consequences,
        );
        this.#run.changed();
        this.#controls.get("target_ppm")?.control.focus();
    }

    /**
     * @param {Field} field
     * @param {Value} value
     */
    #field(field, value) {
        const id = `slo-${field.name}`;
        const error = el("span", { class: "error", id: `${id}-error` });
        const text = written(field, value);
        const control = field.options
            ? el(
                  "select",
                  { id },
                  field.options.map(([name, words]) =>
                      el("option", { value: name, text: words, selected: name === text }),
                  ),
              )
            : el("input", {
                  id,
                  type: "text",
                  value: text,
                  placeholder: field.example,
                  autocomplete: "off",
                  spellcheck: "false",
                  "aria-describedby": `${id}-error`,
              });
        this.#controls.set(field.name, { field, control, error });
        return el(
            "div",
            { class: "field" },
            el("label", { for: id, text: field.unit ? `${field.label} (${field.unit})` : field.label }),
            control,
            field.hint && el("span", { class: "hint", text: field.hint }),
            error,
        );
    }

    /** Return what is written; null after showing what cannot be read. */
    #values() {
        /** @type {Values} */
        const values = {};
        let wrong = null;
        for (const { field, control, error } of this.#controls.values()) {
            const value = parsed(field, control.value.trim());
            control.setAttribute("aria-invalid", String(value === undefined));
            error.textContent = value === undefined ? (field.error ?? "") : "";
            if (value === undefined) wrong ??= control;
            else values[field.name] = value;
        }
        if (!wrong) return values;
        wrong.closest("details")?.setAttribute("open", "");
        wrong.focus();
        return null;
    }

    /**
     * Send the SLO; a conflict is shown, and anything else that fails too.
     * @param {Values} values
     * @param {Record<string, string>} options
     */
    #send(values, options) {
        const { etag } = this.#base;
        /** @type {() => Promise<SloSet>} */
        const write = () =>
            send("PUT", query(`${this.#path}/slo`, options), values, etag === null ? {} : { "If-Match": etag });
        return this.#dialog.attempt(write, (error) => this.#showConflict(error, values));
    }

    /**
     * Show what somebody else has set meanwhile; return whether that is the matter.
     * @param {Rejected} error
     * @param {Values} mine
     */
    async #showConflict(error, mine) {
        if (!STALE.has(error.status)) return false;
        const found = await this.#read();
        if (found.value === null) return false;
        const theirs = valuesOf(found.value);
        const before = this.#base.value && valuesOf(this.#base.value);
        const differ = this.#fields.filter(({ name }) => theirs[name] !== mine[name]);
        this.#run.changed();
        put(
            this.#run.consequences,
            el(
                "div",
                { class: "problem" },
                icon("warning"),
                el(
                    "div",
                    {},
                    el("strong", { text: "Somebody else has set the SLO meanwhile" }),
                    el("p", {
                        text: `It is generation ${found.value.generation} now, set ${moment(found.value.updated_us)}. Your values were not stored.`,
                    }),
                    differ.length
                        ? figures(
                              ["", "before", "theirs", "yours"].map((text) => ({ text })),
                              differ.map((field) => ({
                                  cells: [
                                      field.label,
                                      ...[before, theirs, mine].map((values) =>
                                          values ? worded(field, values[field.name]) : "–",
                                      ),
                                  ],
                              })),
                              { class: "conflict" },
                          )
                        : el("p", { text: "Theirs is the same as yours: there is nothing left to do." }),
                    el(
                        "p",
                        { class: "row" },
                        differ.length > 0 &&
                            button("Keep mine, on top of theirs", () => this.#keep(found), { class: "button small" }),
                        button("Take theirs", () => this.#build(found), { class: "button small" }),
                    ),
                ),
            ),
        );
        return true;
    }

    /** @param {Read} theirs */
    #keep(theirs) {
        this.#base = theirs;
        this.#run.changed();
        this.#run.submit();
    }
}

/**
 * Return the fields of an SLO by name.
 * @param {SloAnswer} slo
 * @returns {Values}
 */
function valuesOf(slo) {
    return /** @type {any} */ (slo);
}

/**
 * Return what follows from an SLO, with the bounds and what they do before and after.
 * @param {string} path
 * @param {number | null} inUseMs The bound in use.
 * @param {SloSet} answer
 */
export async function consequencesOf(path, inUseMs, { recommended, published }) {
    const toMs = recommended?.bound_ms ?? null;
    return [
        el("p", { text: recommendedText(recommended) }),
        toMs !== null && (await beforeAfter(path, inUseMs, toMs)),
        el("p", { class: "hint", text: publishedText(published) }),
    ];
}

/** @param {SloSet["recommended"]} recommended */
function recommendedText(recommended) {
    if (recommended === null) return "Nothing is recommended until there are reports.";
    if (recommended.bound_ms !== null) return `The recommended bound is ${duration(recommended.bound_ms)}.`;
    return `No bound is recommended: ${recommended.steps.at(-1)?.reason ?? "there is not enough evidence"}.`;
}

/** @param {SloSet["published"]} published */
function publishedText({ envelope, bound_ms: boundMs }) {
    if (envelope !== null) return "The job is steered live, inside the envelope of this SLO.";
    if (boundMs === null) return "The job keeps its own bound for now.";
    return `The published bound stays at ${duration(boundMs)} for now; a different one is rolled out as the policy allows.`;
}
