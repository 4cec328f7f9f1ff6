// The fields of an SLO and of a policy, as the controller's schema allows them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
    fieldsOf,
    limitsProblem,
    parsed,
    worded,
    written,
} from "../../../../controller/server/page/static/spec_fields.js";
import { MODES } from "../../../../controller/server/page/static/words.js";

const document = JSON.parse(readFileSync(new URL("../../../../controller/openapi.json", import.meta.url), "utf-8"));
const properties = document.components.schemas.Slo.properties;
const fields = new Map(fieldsOf(document, "Slo").map((field) => [field.name, field]));
const policy = new Map(fieldsOf(document, "Policy").map((field) => [field.name, field]));

test("there is a field for everything that an SLO has", () => {
    assert.deepEqual([...fields.keys()].sort(), Object.keys(properties).sort());
});

test("defaults, choices and what may be empty are the schema's", () => {
    for (const [name, field] of fields) assert.equal(field.default, properties[name].default ?? null, name);
    assert.deepEqual(
        fields.get("on_conflict").options.map(([value]) => value),
        ["", "miss_target", "exceed_latency_cap", "exceed_state_cap"],
    );
    assert.deepEqual(fields.get("objective").options, [
        ["occurrences", "all rows together"],
        ["timeslices", "each window"],
    ]);
    assert.equal(parsed(fields.get("latency_cap_ms"), ""), null);
    assert.equal(parsed(fields.get("target_ppm"), ""), undefined);
});

test("every default is written so that it is read back", () => {
    for (const field of [...fields.values(), ...policy.values()]) {
        if (field.default !== null && typeof field.default !== "object") {
            assert.equal(parsed(field, written(field, field.default)), field.default, field.name);
        }
    }
});

test("what is no value of a field is undefined", () => {
    assert.equal(parsed(fields.get("target_ppm"), "99,9x"), undefined);
    assert.equal(parsed(fields.get("latency_cap_ms"), "soon"), undefined);
    assert.equal(parsed(fields.get("state_cap_rows"), "1.5"), undefined);
});

test("a text is shown and read as it is", () => {
    const schema = {
        "x-help": "Why it is set",
        title: "Note",
        default: null,
        anyOf: [{ type: "string" }, { type: "null" }],
    };
    const [note] = fieldsOf({ components: { schemas: { Slo: { properties: { note: schema } } } } }, "Slo");
    assert.equal(written(note, "as agreed_on"), "as agreed_on");
    assert.equal(parsed(note, "as agreed_on"), "as agreed_on");
    assert.equal(parsed(note, ""), null);
    assert.equal(worded(note, null), "none");
});

test("a value in words has its unit", () => {
    assert.equal(worded(fields.get("target_ppm"), 995_000), "99.5 %");
    assert.equal(worded(fields.get("latency_cap_ms"), null), "none");
    assert.equal(worded(fields.get("on_conflict"), null), "hold the bound and report it");
    assert.equal(worded(policy.get("gates"), ["calendar", "errors"]), "calendar, errors");
});

test("a hint says what may be empty, an example is written as people write it", () => {
    assert.equal(fields.get("state_cap_rows").hint, "Maximum number of rows of state. Empty for none.");
    assert.equal(fields.get("target_ppm").example, "99.5");
    assert.equal(policy.get("max_bound_ms").hint, "Empty for none.");
});

test("every mode and every approval of the controller can be chosen, in words", () => {
    for (const name of ["mode", "approval"]) {
        const { options } = policy.get(name);
        assert.deepEqual(
            options.map(([value]) => value),
            document.components.schemas.Policy.properties[name].enum,
        );
        assert.ok(
            options.every(([value, words]) => words.length > value.length),
            name,
        );
    }
    assert.deepEqual(Object.keys(MODES).sort(), [...document.components.schemas.Policy.properties.mode.enum].sort());
    assert.equal(policy.get("min_bound_ms").options, null);
});

test("only the maximum may be left empty", () => {
    assert.equal(parsed(policy.get("max_bound_ms"), ""), null);
    assert.equal(parsed(policy.get("min_bound_ms"), ""), undefined);
    assert.equal(parsed(policy.get("min_bound_ms"), "1m30s"), 90_000);
    assert.equal(parsed(policy.get("max_bound_ms"), "soon"), undefined);
    assert.equal(written(policy.get("max_bound_ms"), 90_000), "90 s");
    assert.equal(written(policy.get("max_bound_ms"), null), "");
});

test("a maximum below the minimum is a problem, an equal one holds the bound", () => {
    assert.equal(limitsProblem(2, 1) === null, false);
    assert.equal(limitsProblem(2, 2), null);
    assert.equal(limitsProblem(2, null), null);
});
