// The fields of an SLO. Defaults, choices and what may be empty come from the controller's OpenAPI document.

import { PERCENT, exactDuration, parseDuration, target } from "./format.js";
import { choice } from "./words.js";

/** @import { SloAnswer } from "api" */
/** @typedef {Exclude<keyof SloAnswer, "generation" | "updated_us">} FieldName */
/** @typedef {string | number | null} Value */
/** @typedef {Record<string, Value>} Values By name of the field */
/**
 * @typedef {object} Notation How a value is written
 * @property {(value: Value) => string} show
 * @property {(text: string) => Value | undefined} parse Undefined for what is none.
 * @property {string} [error] What to write instead.
 * @property {string} [unit]
 */
/**
 * @typedef {object} Words
 * @property {FieldName} name
 * @property {string} label
 * @property {string} [hint]
 * @property {string} [none] Words for no value, among choices.
 * @property {boolean} [rare] Whether few people change it.
 * @property {string} [example]
 */
/** @typedef {Words & Notation & {nullable: boolean, default: Value, options: [string, string][] | null}} Field */
/** @typedef {{default?: Value, enum?: string[], type?: string, anyOf?: Schema[]}} Schema */
/** @typedef {{paths: Record<string, any>, components: {schemas: Record<string, any>}}} OpenApi */

const SLO_PATH = "/v1/jobs/{job}/streams/{stream}/slo";

/** @type {(error: string) => Notation} */
const percent = (error) => ({
    show: (ppm) => target(Number(ppm)).replace(PERCENT, ""),
    parse: (text) => (/^\d{1,3}(\.\d{1,4})?$/.test(text) ? Math.round(Number(text) * 10_000) : undefined),
    error,
    unit: "%",
});
/** @type {Notation} */
const time = {
    show: (ms) => exactDuration(Number(ms)),
    parse: (text) => parseDuration(text) ?? undefined,
    error: "write it like 30 s, 5 min, 12 h or 30 d",
};
/** @type {Notation} */
const whole = {
    show: String,
    parse: (text) => (/^\d+$/.test(text) ? Number(text) : undefined),
    error: "write a whole number",
};
/** @type {Notation} */
const chosen = { show: (value) => choice(String(value)), parse: (text) => text };

/** @type {(Words & Notation)[]} */
const FIELDS = [
    {
        name: "target_ppm",
        label: "Target",
        hint: "Share of the rows to admit.",
        example: "99.5",
        ...percent("write a share like 99.5, between 0 and 100"),
    },
    {
        name: "latency_cap_ms",
        label: "Latency cap",
        hint: "Maximum mean latency of a window; empty for none.",
        ...time,
    },
    {
        name: "on_conflict",
        label: "When no bound meets all",
        none: "hold the bound and report it",
        ...chosen,
    },
    { name: "objective", label: "The target applies to", rare: true, ...chosen },
    {
        name: "good_windows_ppm",
        label: "Windows that must reach it",
        hint: "Applies only to a target of each window.",
        rare: true,
        ...percent("write a share like 99"),
    },
    {
        name: "worst_window_ppm",
        label: "Minimum of every single window",
        hint: "Empty for none.",
        rare: true,
        ...percent("write a share like 90"),
    },
    { name: "state_cap_rows", label: "State cap in rows", hint: "Empty for none.", rare: true, ...whole },
    { name: "window_ms", label: "Window of the budget", rare: true, ...time },
    { name: "horizon_ms", label: "Horizon of the evidence", rare: true, ...time },
    { name: "confidence_ppm", label: "Confidence", rare: true, ...percent("write a share like 95") },
];

/**
 * Return the properties of an SLO's body by name.
 * @param {OpenApi} document
 * @returns {Record<string, Schema>}
 */
export function propertiesOf({ paths, components }) {
    const { $ref: reference } = paths[SLO_PATH].put.requestBody.content["application/json"].schema;
    return components.schemas[reference.split("/").at(-1)].properties;
}

/**
 * Return the fields of an SLO as the controller allows them.
 * @param {OpenApi} document
 * @returns {Field[]}
 */
export function fieldsOf(document) {
    const properties = propertiesOf(document);
    return FIELDS.map((field) => {
        const schema = properties[field.name];
        const variants = schema.anyOf ?? [schema];
        const values = variants.flatMap((one) => one.enum ?? []);
        const nullable = variants.some((one) => one.type === "null");
        /** @type {[string, string][]} */
        const options = values.map((value) => [value, choice(value)]);
        if (nullable) options.unshift(["", field.none ?? "none"]);
        return { ...field, nullable, default: schema.default ?? null, options: values.length ? options : null };
    });
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
    if (value === null) return field.none ?? "none";
    return field.unit ? `${field.show(value)} ${field.unit}` : field.show(value);
}
