// The fields of what people set. Names, help, defaults, choices and what may be empty come from the controller's OpenAPI
// document.

import { PERCENT, exactDuration, parseDuration, target } from "./format.js";
import { MODES, choice, policyWord } from "./words.js";

/** @typedef {string | number | string[] | null} Value */
/** @typedef {Record<string, Value>} Values By name of the field */
/**
 * @typedef {object} Notation How a value is written
 * @property {(value: any) => string} show
 * @property {(text: string) => Value | undefined} parse Undefined for what is none.
 * @property {string} error What to write instead.
 * @property {string} unit
 */
/**
 * @typedef {object} Named
 * @property {string} name
 * @property {string} label
 * @property {string} hint
 * @property {string} none Words for no value.
 * @property {string} example
 * @property {boolean} nullable
 * @property {Value} default
 * @property {[string, string][] | null} options The values to choose from, with their words.
 */
/** @typedef {Named & Notation} Field */
/** @typedef {{default?: Value, enum?: string[], type?: string, title?: string, examples?: Value[], anyOf?: Schema[]}} Schema */
/** @typedef {{components: {schemas: Record<string, any>}}} OpenApi */

/** @type {Notation} */
const SHARE = {
    show: (ppm) => target(Number(ppm)).replace(PERCENT, ""),
    parse: (text) => (/^\d{1,3}(\.\d{1,4})?$/.test(text) ? Math.round(Number(text) * 10_000) : undefined),
    error: "write a share like 99.5, between 0 and 100",
    unit: "%",
};
/** @type {Notation} */
const DURATION = {
    show: (ms) => exactDuration(Number(ms)),
    parse: (text) => parseDuration(text) ?? undefined,
    error: "write it like 30 s, 5 min, 12 h or 30 d",
    unit: "",
};
/** @type {Notation} */
const NUMBER = {
    show: String,
    parse: (text) => (/^\d+$/.test(text) ? Number(text) : undefined),
    error: "write a whole number",
    unit: "",
};
/** @type {Notation} */
const TEXT = { show: String, parse: (text) => text, error: "", unit: "" };
/** @type {Notation} */
const LIST = { show: (names) => names.join(", ") || "none", parse: () => undefined, error: "", unit: "" };

/** @type {Record<string, (value: string) => string>} Words for the values of a choice, where they are its own. */
const CHOICES = {
    mode: (value) => `${value}: ${lowered(MODES[/** @type {keyof MODES} */ (value)])}`,
    approval: policyWord,
};
/** @type {Record<string, string>} */
const NONE = { on_conflict: "hold the bound and report it" };

/**
 * Return the fields of a specification as the controller allows them.
 * @param {OpenApi} document
 * @param {string} kind Name of its schema.
 * @returns {Field[]}
 */
export function fieldsOf(document, kind) {
    const properties = document.components.schemas[kind].properties;
    return Object.entries(properties)
        .filter(([, schema]) => "x-help" in schema)
        .map(([name, schema]) => fieldOf(name, schema));
}

/**
 * @param {string} name
 * @param {Schema & {"x-help": string}} schema
 * @returns {Field}
 */
function fieldOf(name, schema) {
    const variants = schema.anyOf ?? [schema];
    const values = variants.flatMap((one) => one.enum ?? []);
    const nullable = variants.some((one) => one.type === "null");
    const none = NONE[name] ?? "none";
    const words = CHOICES[name] ?? choice;
    /** @type {Notation} */
    const notation = values.length ? { ...TEXT, show: words } : notationOf(name, variants);
    /** @type {[string, string][]} */
    const options = values.map((value) => [value, words(value)]);
    if (nullable) options.unshift(["", none]);
    const label = schema.title ?? name;
    const help = schema["x-help"] === label ? "" : `${schema["x-help"]}.`;
    return {
        name,
        label,
        hint: values.length ? "" : `${help}${nullable ? " Empty for none." : ""}`.trim(),
        none,
        example: schema.examples ? notation.show(schema.examples[0]) : "",
        nullable,
        default: schema.default ?? null,
        options: values.length ? options : null,
        ...notation,
    };
}

/**
 * @param {string} name
 * @param {Schema[]} variants
 */
function notationOf(name, variants) {
    if (name.endsWith("_ppm")) return SHARE;
    if (name.endsWith("_ms")) return DURATION;
    if (variants.some((one) => one.type === "string")) return TEXT;
    return variants.some((one) => one.type === "integer") ? NUMBER : LIST;
}

/**
 * Return what a field holds before anybody writes into it.
 * @param {Field} field
 * @param {Value} value
 */
export function written(field, value) {
    return value === null ? "" : field.options ? String(value) : field.show(value);
}

/**
 * Return the value that is written in a field; undefined when it is none.
 * @param {Field} field
 * @param {string} text
 */
export function parsed(field, text) {
    return text === "" && field.nullable ? null : field.parse(text);
}

/**
 * Return a value in words.
 * @param {Field} field
 * @param {Value} value
 */
export function worded(field, value) {
    if (value === null) return field.none;
    return field.unit ? `${field.show(value)} ${field.unit}` : field.show(value);
}

/**
 * Return why limits do not fit together; null when they do.
 * @param {number} min
 * @param {number | null} max
 */
export function limitsProblem(min, max) {
    return max !== null && min > max ? "the maximum must not be below the minimum" : null;
}

/** @param {string} text */
function lowered(text) {
    return text.charAt(0).toLowerCase() + text.slice(1).replace(/\.$/, "");
}
