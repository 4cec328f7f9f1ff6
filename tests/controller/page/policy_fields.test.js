// The fields of a policy: durations, limits that fit together, and the choices of the controller.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
    limitsProblem,
    MODES,
    optionsOf,
    parsedBound,
    policyText,
} from "../../../controller/page/static/policy_fields.js";

const DOCUMENT = JSON.parse(readFileSync(new URL("../../../controller/openapi.json", import.meta.url), "utf8"));

test("every mode and every approval of the controller can be chosen, in words", () => {
    const { mode, approval } = DOCUMENT.components.schemas.Policy.properties;
    for (const [field, values] of [
        ["mode", mode.enum],
        ["approval", approval.enum],
    ]) {
        const options = optionsOf(DOCUMENT, field);
        assert.deepEqual(
            options.map(([value]) => value),
            values,
        );
        assert.ok(
            options.every(([value, words]) => words.length > value.length),
            field,
        );
    }
    assert.deepEqual(Object.keys(MODES).sort(), [...mode.enum].sort());
    assert.equal(optionsOf(DOCUMENT, "min_bound_ms"), null);
});

test("only the maximum may be left empty", () => {
    assert.equal(parsedBound("max_bound_ms", ""), null);
    assert.equal(parsedBound("min_bound_ms", ""), undefined);
    assert.equal(parsedBound("min_bound_ms", "1m30s"), 90_000);
    assert.equal(parsedBound("max_bound_ms", "soon"), undefined);
    assert.equal(policyText(90_000), "90 s");
    assert.equal(policyText(null), "");
});

test("a maximum below the minimum is a problem, an equal one holds the bound", () => {
    assert.equal(limitsProblem(2, 1) === null, false);
    assert.equal(limitsProblem(2, 2), null);
    assert.equal(limitsProblem(2, null), null);
});
