// The form that changes a part of the policy. It shows what the change does before anything is set.

import { get, getTagged, query, send } from "./api.js";
import { beforeAfter } from "./before_after.js";
import { Dialog } from "./dialog.js";
import { el, put } from "./dom.js";
import { DryRun } from "./dry_run.js";
import { duration } from "./format.js";
import { GateField } from "./gate_field.js";
import { LABELS, limitsProblem, optionsOf, parsedBound, policyText } from "./policy_fields.js";

/** @import { GateList, PolicyAnswer, PolicySet } from "api" */
/** @import { PolicyField } from "./policy_fields.js" */
/** @import { Shell } from "./stream.js" */
/** @typedef {"mode" | "limits" | "approval" | "gates" | "apply"} PolicyPart */

/** @type {Record<PolicyPart, {title: string, fields: PolicyField[]}>} */
const PARTS = {
    mode: { title: "Change the mode", fields: ["mode"] },
    limits: { title: "Change the limits", fields: ["min_bound_ms", "max_bound_ms"] },
    approval: { title: "Change which rollouts wait for approval", fields: ["approval"] },
    gates: { title: "Change the outside gates", fields: [] },
    apply: { title: "Apply a bound", fields: ["min_bound_ms", "max_bound_ms", "mode"] },
};

/**
 * Open the form.
 * @param {string} path Path of the stream.
 * @param {PolicyPart} part
 * @param {number | null} inUseMs The bound in use.
 * @param {Shell} shell
 * @param {number} [boundMs] For `apply`: the bound to hold the stream at.
 */
export async function openPolicyForm(path, part, inUseMs, shell, boundMs) {
    const title = boundMs === undefined ? PARTS[part].title : `Apply a bound of ${duration(boundMs)}`;
    const dialog = new Dialog(title, shell, { wide: true });
    const form = new PolicyForm(path, part, inUseMs, dialog, shell);
    dialog.open();
    await form.load(boundMs);
}

class PolicyForm {
    #path;
    #part;
    #inUseMs;
    #dialog;
    #run;
    /** @type {{value: PolicyAnswer, etag: string | null} | null} */
    #base = null;
    /** @type {Map<PolicyField, {control: HTMLInputElement | HTMLSelectElement, error: Element}>} */
    #controls = new Map();
    /** @type {GateField | null} */
    #gates = null;

    /**
     * @param {string} path
     * @param {PolicyPart} part
     * @param {number | null} inUseMs
     * @param {Dialog} dialog
     * @param {Shell} shell
     */
    constructor(path, part, inUseMs, dialog, shell) {
        this.#path = path;
        this.#part = part;
        this.#inUseMs = inUseMs;
        this.#dialog = dialog;
        /** @type {DryRun<Record<string, unknown>, PolicySet>} */
        this.#run = new DryRun(dialog, shell, {
            verb: "Set it",
            read: () => this.#values(),
            send: (values, options) => this.#send(values, options),
            consequences: (answer) => this.#consequences(answer),
            done: ({ generation }) => `The policy is set, generation ${generation}.`,
        });
        put(dialog.body, el("p", { class: "dim form-to-come", text: "Reading the policy …" }));
    }

    /** @param {number | undefined} boundMs */
    async load(boundMs) {
        const found = await this.#dialog.attempt(async () => {
            /** @type {[any, {value: PolicyAnswer, etag: string | null}, GateList | null]} */
            const all = await Promise.all([
                get("openapi.json"),
                getTagged(`${this.#path}/policy`),
                this.#part === "gates" ? get("v1/gates") : null,
            ]);
            return all;
        });
        if (!found) return;
        const [document, base, offered] = found;
        this.#base = base;
        const { value } = base;
        this.#gates = offered && new GateField(value.gates, offered.gates);
        /** @type {PolicyAnswer} */
        const shown = boundMs === undefined ? value : { ...value, min_bound_ms: boundMs, max_bound_ms: boundMs };
        put(
            this.#dialog.body,
            boundMs !== undefined &&
                el("p", {
                    text: "The minimum and the maximum bound are set to it: the stream is held there, and the SLO no longer moves it, until the limits are taken off.",
                }),
            boundMs !== undefined &&
                value.mode === "Off" &&
                el("p", {
                    class: "hint",
                    text: "In mode Off the job keeps its own bound: choose how it takes this one.",
                }),
            el(
                "div",
                { class: "slo-fields", on: { input: () => this.#run.changed() } },
                PARTS[this.#part].fields.map((field) => this.#field(field, shown, optionsOf(document, field))),
                this.#gates?.node,
            ),
            this.#run.reason.node,
            this.#run.consequences,
        );
        this.#run.changed();
        (this.#gates ?? this.#controls.values().next().value?.control)?.focus();
    }

    /**
     * @param {PolicyField} field
     * @param {PolicyAnswer} policy
     * @param {[string, string][] | null} options
     */
    #field(field, policy, options) {
        const id = `policy-${field}`;
        const error = el("span", { class: "error", id: `${id}-error` });
        const text = policyText(policy[field]);
        const control = options
            ? el(
                  "select",
                  { id },
                  options.map(([name, words]) => el("option", { value: name, text: words, selected: name === text })),
              )
            : el("input", {
                  id,
                  type: "text",
                  value: text,
                  autocomplete: "off",
                  spellcheck: "false",
                  "aria-describedby": `${id}-error`,
              });
        this.#controls.set(field, { control, error });
        const { label, hint } = LABELS[field];
        return el(
            "div",
            { class: options ? "field field-wide" : "field" },
            el("label", { for: id, text: label }),
            control,
            el("span", { class: "hint", text: hint }),
            error,
        );
    }

    /** Return the policy as it is written; null after showing what cannot be read. */
    #values() {
        if (this.#base === null) return null;
        const values = policyValues(this.#base.value);
        /** @type {HTMLElement | null} */
        let wrong = null;
        /** @type {(field: PolicyField, message: string) => void} */
        const say = (field, message) => {
            const found = this.#controls.get(field);
            if (!found) return;
            found.control.setAttribute("aria-invalid", String(message !== ""));
            found.error.textContent = message;
            if (message) wrong ??= found.control;
        };
        for (const [field, { control }] of this.#controls) {
            const text = control.value.trim();
            const value = control instanceof HTMLSelectElement ? text : parsedBound(field, text);
            say(field, value === undefined ? "write it like 8.03 s, 450 ms or 2 min" : "");
            values[field] = value;
        }
        if (this.#gates) values.gates = this.#gates.chosen;
        const min = /** @type {number} */ (values.min_bound_ms);
        const max = /** @type {number | null} */ (values.max_bound_ms);
        const problem = wrong === null ? limitsProblem(min, max) : null;
        if (problem !== null) say("max_bound_ms", problem);
        /** @type {HTMLElement | null} */ (wrong)?.focus();
        return wrong === null ? values : null;
    }

    /**
     * @param {Record<string, unknown>} values
     * @param {Record<string, string>} options
     * @returns {Promise<PolicySet | undefined>}
     */
    #send(values, options) {
        const etag = this.#base?.etag ?? null;
        // A policy that was never set is answered with its defaults and generation 0, and needs no condition.
        /** @type {Record<string, string>} */
        const headers = etag === null || !this.#base?.value.generation ? {} : { "If-Match": etag };
        return this.#dialog.attempt(() => send("PUT", query(`${this.#path}/policy`, options), values, headers));
    }

    /** @param {PolicySet} answer */
    async #consequences(answer) {
        const toMs = answer.recommended?.bound_ms ?? this.#inUseMs;
        return [el("p", { text: consequence(answer) }), await beforeAfter(this.#path, this.#inUseMs, toMs)];
    }
}

/**
 * Return a policy as it is sent.
 * @param {PolicyAnswer} policy
 * @returns {Record<string, unknown>}
 */
function policyValues(policy) {
    const fields = Object.entries(policy).filter(([name]) => !["generation", "updated_us"].includes(name));
    return Object.fromEntries(fields);
}

/** @param {PolicySet} answer */
function consequence({ mode, recommended, published, approval, held }) {
    if (mode === "Off") return "The job keeps its own bound; the controller only watches.";
    if (published.envelope !== null) return "The job is steered live, inside the published envelope.";
    const recommendedMs = recommended?.bound_ms ?? null;
    if (recommendedMs === null) return "Nothing is recommended for now, so the bound stays as it is.";
    if (recommendedMs === published.bound_ms) return `${duration(recommendedMs)} is published.`;
    const gates =
        approval === "none" ? "as the policy allows" : "as the policy allows, after an approval where it asks for one";
    const waits = held === null ? "" : ` Not yet: ${held}.`;
    return `${duration(recommendedMs)} is recommended then; it is rolled out ${gates}.${waits}`;
}
