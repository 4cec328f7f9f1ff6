// The form that sets an SLO or a policy: it shows the consequences first, and a conflict with somebody else side by side.

import { get, getTagged, query, Rejected, send } from "./api.js";
import { Dialog } from "./dialog.js";
import { button, el, figures, icon, put } from "./dom.js";
import { DryRun } from "./dry_run.js";
import { moment } from "./format.js";
import { fieldsOf, parsed, worded, written } from "./spec_fields.js";

/** @import { Child } from "./dom.js" */
/** @import { Field, Value, Values } from "./spec_fields.js" */
/** @import { Shell } from "./stream.js" */
/** @typedef {Values & {generation: number, updated_us: number | null}} Stored */
/** @typedef {{value: Stored | null, etag: string | null}} Read What is set; null for nothing */
/**
 * @typedef {object} Control What holds the value of a field
 * @property {Node} node
 * @property {() => Value | undefined} read Undefined for what is no value.
 * @property {() => void} focus
 * @property {(message: string) => void} say Shows what is wrong; nothing for an empty message.
 */
/**
 * @template A
 * @typedef {object} Spec
 * @property {string} title Of the dialog.
 * @property {string} path
 * @property {string} kind Name of the schema of what is sent.
 * @property {string} what In words, such as "the SLO".
 * @property {string} verb What the button that sets it says.
 * @property {string[]} usual Names of the fields that are shown at once.
 * @property {string} [rare] What all the others are, which are folded away at first; without it there are none.
 * @property {boolean} [absent] Whether nothing is set, as far as the page knows.
 * @property {(value: Values) => Values} [change] What the form begins with, of what is set.
 * @property {(value: Stored | null) => Child} intro
 * @property {Record<string, (value: any) => Promise<Control>>} [controls] Those of fields that have their own.
 * @property {(values: Values) => [string, string] | null} [check] The field that is wrong, and why.
 * @property {(answer: A) => Child[] | Promise<Child[]>} consequences
 * @property {(answer: A) => string} done
 */

const NOT_FOUND = 404;
const STALE = new Set([412, 428]);
const READ_ONLY = new Set(["generation", "updated_us"]);
/** Longest words of a choice that fit beside another field. */
const MAX_WORDS = 40;

/**
 * Open the form.
 * @template A
 * @param {Spec<A>} spec
 * @param {Shell} shell
 */
export async function openSpecForm(spec, shell) {
    const dialog = new Dialog(spec.title, shell, { wide: true });
    const form = new SpecForm(spec, dialog, shell);
    dialog.open();
    await form.load();
}

/** @template A */
class SpecForm {
    #spec;
    #dialog;
    #run;
    /** @type {Field[]} */
    #fields = [];
    /** @type {Read} What the person began with. */
    #base = { value: null, etag: null };
    /** @type {Map<string, Control>} */
    #controls = new Map();

    /**
     * @param {Spec<A>} spec
     * @param {Dialog} dialog
     * @param {Shell} shell
     */
    constructor(spec, dialog, shell) {
        this.#spec = spec;
        this.#dialog = dialog;
        /** @type {DryRun<Values, A>} */
        this.#run = new DryRun(dialog, shell, {
            verb: spec.verb,
            read: () => this.#values(),
            send: (values, options) => this.#send(values, options),
            consequences: spec.consequences,
            done: spec.done,
        });
        put(dialog.body, el("p", { class: "dim form-to-come", text: `Reading ${spec.what} …` }));
    }

    async load() {
        const found = await this.#dialog.attempt(async () => {
            // Where nothing is set there is nothing to read; if somebody sets it meanwhile, the write meets a conflict.
            const reads = /** @type {const} */ ([get("openapi.json"), this.#spec.absent ? this.#base : this.#read()]);
            const [document, base] = await Promise.all(reads);
            const fields = fieldsOf(document, this.#spec.kind);
            const { usual, rare } = this.#spec;
            const names = [...usual, ...(rare ? fields.map(({ name }) => name) : [])];
            this.#fields = [...new Set(names)].flatMap((name) => fields.filter((field) => field.name === name));
            return base;
        });
        if (found) await this.#build(found);
    }

    /** @returns {Promise<Read>} */
    async #read() {
        try {
            return await getTagged(this.#spec.path);
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
    async #build(found) {
        this.#base = found;
        const { usual, rare, controls = {}, change = (/** @type {Values} */ values) => values } = this.#spec;
        const defaults = Object.fromEntries(this.#fields.map((field) => [field.name, field.default]));
        const shown = found.value ? change(found.value) : defaults;
        const folded = this.#fields.map(({ name }) => name).filter((name) => !usual.includes(name));
        for (const field of this.#fields) {
            const own = controls[field.name];
            const made = own
                ? await this.#dialog.attempt(() => own(shown[field.name]))
                : controlOf(field, shown[field.name], this.#spec.kind);
            if (made) this.#controls.set(field.name, made);
        }
        put(
            this.#dialog.body,
            this.#spec.intro(found.value),
            this.#group(usual),
            rare &&
                el(
                    "details",
                    { class: "slo-more", open: folded.some((name) => shown[name] !== defaults[name]) },
                    el("summary", { text: rare }),
                    this.#group(folded),
                ),
            this.#run.reason.node,
            this.#run.consequences,
        );
        this.#run.changed();
        this.#controls.values().next().value?.focus();
    }

    /** @param {string[]} names */
    #group(names) {
        return el(
            "div",
            { class: "slo-fields", on: { input: () => this.#run.changed() } },
            names.map((name) => this.#controls.get(name)?.node),
        );
    }

    /** Return all that is to be set; null after showing what cannot be read. */
    #values() {
        const values = valuesOf(this.#base.value);
        /** @type {Control | null} */
        let wrong = null;
        for (const [name, control] of this.#controls) {
            const value = control.read();
            if (value === undefined) wrong ??= control;
            else values[name] = value;
        }
        if (wrong === null) {
            const [name, message] = this.#spec.check?.(values) ?? ["", ""];
            wrong = this.#controls.get(name) ?? null;
            wrong?.say(message);
        }
        wrong?.focus();
        return wrong === null ? values : null;
    }

    /**
     * Send the values; a conflict is shown, and anything else that fails too.
     * @param {Values} values
     * @param {Record<string, string>} options
     */
    #send(values, options) {
        const { etag } = this.#base;
        /** @type {() => Promise<A>} */
        const write = () =>
            send("PUT", query(this.#spec.path, options), values, etag === null ? {} : { "If-Match": etag });
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
        const { generation, updated_us: updatedUs } = found.value;
        const theirs = valuesOf(found.value);
        const before = this.#base.value;
        const same = Object.keys(mine).every((name) => alike(theirs[name], mine[name]));
        const differ = this.#fields.filter(({ name }) => !alike(theirs[name], mine[name]));
        this.#run.changed();
        put(
            this.#run.consequences,
            el(
                "div",
                { class: "problem kind-warning" },
                icon("warning"),
                el(
                    "div",
                    {},
                    el("strong", { text: `Somebody else has set ${this.#spec.what} meanwhile` }),
                    el("p", {
                        text: `It is generation ${generation} now, set ${moment(updatedUs)}. Your values were not stored.`,
                    }),
                    differ.length > 0 &&
                        figures(
                            ["", "before", "theirs", "yours"].map((text) => ({ text })),
                            differ.map((field) => ({
                                cells: [
                                    field.label,
                                    ...[before, theirs, mine].map((values) =>
                                        values ? worded(field, values[field.name] ?? null) : "–",
                                    ),
                                ],
                            })),
                            { class: "conflict" },
                        ),
                    same && el("p", { text: "Theirs is the same as yours: there is nothing left to do." }),
                    el(
                        "p",
                        { class: "row" },
                        !same &&
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
 * Return the control of a field: a choice, or a text.
 * @param {Field} field
 * @param {Value} value
 * @param {string} kind
 * @returns {Control}
 */
function controlOf(field, value, kind) {
    const id = `${kind.toLowerCase()}-${field.name}`;
    const error = el("span", { class: "error", id: `${id}-error` });
    const text = written(field, value);
    const control = field.options
        ? el(
              "select",
              { id },
              field.options.map(([name, words]) => el("option", { value: name, text: words, selected: name === text })),
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
    /** @param {string} message */
    function say(message) {
        control.setAttribute("aria-invalid", String(message !== ""));
        error.textContent = message;
    }
    return {
        node: el(
            "div",
            { class: field.options?.some(([, words]) => words.length > MAX_WORDS) ? "field field-wide" : "field" },
            el("label", { for: id, text: field.unit ? `${field.label} (${field.unit})` : field.label }),
            control,
            field.hint && el("span", { class: "hint", text: field.hint }),
            error,
        ),
        read() {
            const found = parsed(field, control.value.trim());
            say(found === undefined ? field.error : "");
            return found;
        },
        focus() {
            control.closest("details")?.setAttribute("open", "");
            control.focus();
        },
        say,
    };
}

/**
 * Return the fields that are written of what is read.
 * @param {Stored | null} stored
 * @returns {Values}
 */
function valuesOf(stored) {
    return Object.fromEntries(Object.entries(stored ?? {}).filter(([name]) => !READ_ONLY.has(name)));
}

/**
 * @param {unknown} one
 * @param {unknown} other
 */
function alike(one, other) {
    return JSON.stringify(one) === JSON.stringify(other);
}
