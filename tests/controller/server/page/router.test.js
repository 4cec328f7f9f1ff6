// Addresses of views.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fleetHash, parsePlace, streamHash } from "../../../../controller/server/page/static/router.js";

test("the address of a stream is read back, whatever its name", () => {
    for (const name of ["clicks", "a/b", "100 %", "?x=1&y#z", "ü <b>"]) {
        const options = { span: "1h", until: "17" };
        assert.deepEqual(parsePlace(streamHash(name, name, options)), {
            view: "stream",
            job: name,
            stream: name,
            options,
        });
    }
});

test("options without a value are left out", () => {
    assert.equal(streamHash("job", "stream", { span: "", until: "" }), "#/streams/job/stream");
    assert.equal(fleetHash({ q: "" }), "#/");
    assert.equal(fleetHash({ q: "a b" }), "#/?q=a+b");
});

for (const hash of ["", "#", "#/", "#/streams/job", "#/streams/a/b/c", "#/streams/%E0%A4%A/x", "#/elsewhere/a/b"]) {
    test(`“${hash}” is the fleet`, () => assert.deepEqual(parsePlace(hash), { view: "fleet", options: {} }));
}
