// The fields of an SLO, as the controller's schema allows them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { fieldsOf, parsed, propertiesOf, worded, written } from "../../../controller/page/static/slo_fields.js";

const document = JSON.parse(readFileSync(new URL("../../../controller/openapi.json", import.meta.url), "utf-8"));
const properties = propertiesOf(document);
const fields = new Map(fieldsOf(document).map((field) => [field.name, field]));

test("the form has a field for everything that an SLO has", () => {
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
    for (const field of fields.values()) {
        if (field.default !== null) {
            assert.equal(parsed(field, written(field, field.default)), field.default, field.name);
        }
    }
});

test("what is no value of a field is undefined", () => {
    assert.equal(parsed(fields.get("target_ppm"), "99,9x"), undefined);
    assert.equal(parsed(fields.get("latency_cap_ms"), "soon"), undefined);
    assert.equal(parsed(fields.get("state_cap_rows"), "1.5"), undefined);
});

test("a value in words has its unit", () => {
    assert.equal(worded(fields.get("target_ppm"), 995_000), "99.5 %");
    assert.equal(worded(fields.get("latency_cap_ms"), null), "none");
    assert.equal(worded(fields.get("on_conflict"), null), "hold the bound and report it");
});
