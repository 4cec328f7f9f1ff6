// Signing in at an issuer: what it is asked, and what is made of its answers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Away, Rejected } from "../../../../controller/server/page/static/errors.js";
import { begin, finish, renew, revoke } from "../../../../controller/server/page/static/sign_in.js";

const PAGE = "https://tidemark.example/";
const AT = {
    name: "idp",
    issuer: "https://id.example",
    client_id: "page",
    scope: "openid",
    authorization_endpoint: "https://id.example/auth?tenant=7",
    token_endpoint: "https://id.example/token",
    revocation_endpoint: "https://id.example/revoke",
    end_session_endpoint: null,
};

const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

function tokens(nonce, claims = {}, alg = "ES256") {
    const now = Math.floor(Date.now() / 1_000);
    const said = { iss: AT.issuer, aud: "page", sub: "kim", iat: now, exp: now + 300, nonce, ...claims };
    const token = { access_token: "a", token_type: "Bearer", expires_in: 300, refresh_token: "r" };
    return { ...token, id_token: `${part({ alg })}.${part(said)}.${part("signed")}` };
}

/** Answer every request; return what was asked. */
function answering(t, body, status = 200) {
    const asked = [];
    t.mock.method(globalThis, "fetch", (url, { body: form, headers }) => {
        asked.push({ url, form: Object.fromEntries(new URLSearchParams(form)), headers });
        return body instanceof Error ? Promise.reject(body) : Promise.resolve(Response.json(body, { status }));
    });
    return asked;
}

const returned = (begun, more = {}) => new URLSearchParams({ code: "c", state: begun.state, ...more });

test("the issuer is asked with a challenge, and the code is exchanged with what it was made from", async (t) => {
    const { address, begun } = await begin(AT, PAGE, "#/streams/a/b");
    const { state, nonce, code_challenge: challenge, ...asked } = Object.fromEntries(new URL(address).searchParams);
    assert.deepEqual(asked, {
        tenant: "7",
        response_type: "code",
        client_id: "page",
        redirect_uri: PAGE,
        scope: "openid",
        code_challenge_method: "S256",
    });
    assert.deepEqual([state, nonce, begun.hash], [begun.state, begun.nonce, "#/streams/a/b"]);
    const digest = await crypto.subtle.digest("SHA-256", Buffer.from(begun.verifier));
    assert.equal(challenge, Buffer.from(digest).toString("base64url"));
    const sent = answering(t, tokens(begun.nonce));
    const before = Date.now();
    const { endsMs, ...came } = await finish(begun, returned(begun, { iss: AT.issuer }), PAGE);
    assert.deepEqual(came, { access: "a", at: AT, refresh: "r" });
    assert.ok(endsMs >= before + 300_000 && endsMs <= Date.now() + 300_000);
    const grant = { grant_type: "authorization_code", code: "c", redirect_uri: PAGE, code_verifier: begun.verifier };
    assert.deepEqual(sent[0].form, { ...grant, client_id: "page" });
    assert.equal(sent[0].url, AT.token_endpoint);
    // Others would make the browser ask the issuer beforehand.
    const simple = ["accept", "content-type", "user-agent"];
    assert.deepEqual(
        Object.keys(sent[0].headers).filter((name) => !simple.includes(name)),
        [],
    );
});

for (const [what, parameters] of Object.entries({
    "the state of another sign-in": { state: "other" },
    "the issuer of another sign-in": { iss: "https://other.example" },
})) {
    test(`an answer with ${what} is refused, and no code is sent`, async (t) => {
        const { begun } = await begin(AT, PAGE, "");
        const sent = answering(t, tokens(begun.nonce));
        await assert.rejects(finish(begun, returned(begun, parameters), PAGE), Rejected);
        assert.deepEqual(sent, []);
    });
}

for (const [what, change] of Object.entries({
    "of another sign-in": { nonce: "other" },
    "for another client": { aud: "other" },
    "of another issuer": { iss: "https://other.example" },
    "that has expired": { exp: 1_000 },
})) {
    test(`an ID token ${what} is refused`, async (t) => {
        const { begun } = await begin(AT, PAGE, "");
        answering(t, tokens(begun.nonce, change));
        await assert.rejects(finish(begun, returned(begun), PAGE), /the answer of the issuer idp cannot be used/);
    });
}

test("an ID token that nobody signed is refused, and so is none", async (t) => {
    const { begun } = await begin(AT, PAGE, "");
    answering(t, tokens(begun.nonce, {}, "none"));
    await assert.rejects(finish(begun, returned(begun), PAGE), Rejected);
    answering(t, { ...tokens(""), id_token: undefined });
    await assert.rejects(finish(begun, returned(begun), PAGE), Rejected);
});

test("without the scope openid there is no ID token to look at", async (t) => {
    const at = { ...AT, scope: "api://tidemark/.default" };
    const { begun } = await begin(at, PAGE, "");
    answering(t, { ...tokens(""), id_token: undefined });
    assert.equal((await finish(begun, returned(begun), PAGE)).access, "a");
});

for (const [error, words] of [
    ["access_denied", "it was cancelled there, or you may not use Tidemark"],
    ["unheard_of", "unheard_of \\(because\\)"],
]) {
    test(`the refusal ${error} is said in words`, async () => {
        const { begun } = await begin(AT, PAGE, "");
        const answer = {
            error,
            ...(error === "unheard_of" ? { error_description: "because" } : {}),
            state: begun.state,
        };
        await assert.rejects(
            finish(begun, new URLSearchParams(answer), PAGE),
            new RegExp(`^Error: the issuer idp lets nobody in: ${words}$`),
        );
    });
}

test("a sign-in is renewed by the newest token that renews", async (t) => {
    const sent = answering(t, { access_token: "b", token_type: "Bearer" });
    const { endsMs, ...came } = await renew(AT, "r");
    assert.deepEqual(came, { access: "b", at: AT, refresh: "r" });
    assert.ok(endsMs > Date.now());
    assert.deepEqual(sent[0].form, { grant_type: "refresh_token", refresh_token: "r", client_id: "page" });
    answering(t, { access_token: "b", token_type: "Bearer", refresh_token: "next" });
    assert.equal((await renew(AT, "r")).refresh, "next");
});

test("an issuer that refuses ends a sign-in, and one that is away does not", async (t) => {
    answering(t, { error: "invalid_grant" }, 400);
    await assert.rejects(renew(AT, "r"), Rejected);
    answering(t, {}, 503);
    await assert.rejects(renew(AT, "r"), Away);
    answering(t, new TypeError("Failed to fetch"));
    await assert.rejects(renew(AT, "r"), (error) => error instanceof Away && error.who === "The issuer idp");
});

test("a sign-in is ended at its issuer where that can be asked", async (t) => {
    const sent = answering(t, {});
    await revoke({ ...AT, revocation_endpoint: null }, "r");
    assert.deepEqual(sent, []);
    await revoke(AT, "r");
    assert.deepEqual(sent[0].form, { token: "r", client_id: "page" });
});
