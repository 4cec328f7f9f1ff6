// What this tab sends to the controller: a token that was typed in, or what came of signing in at an issuer.
//
// It stays in this tab until the tab is closed, over reloads too, and out of all addresses. Another tab does not have it:
// whoever signs in there is known to the issuer.

import { Away, Rejected } from "./errors.js";
import { begin, finish, renew, revoke } from "./sign_in.js";

/** @import { SignInIssuer } from "api" */
/** @import { Begun, SignIn } from "./sign_in.js" */

const SESSION = "tidemark-session";
const BEGUN = "tidemark-sign-in";
/** How long before its end a sign-in is renewed. */
const EARLY_MS = 30_000;

/** @type {Map<string, string | null>} The same as is stored; where storage is switched off, until the page is left. */
const kept = new Map();
/** @type {Promise<string> | null} */
let renewing = null;

/** Whether there is a token. */
export function hasToken() {
    return read(SESSION) !== null;
}

/** Return where somebody is signed in; null for nowhere. */
export function signedInAt() {
    return session()?.at ?? null;
}

/** Return the token, renewed where it ends soon; null for none. */
export async function token() {
    const now = session();
    if (!now?.at || !now.refresh || now.endsMs > Date.now() + EARLY_MS) return now?.access ?? null;
    // Of an issuer that gives another one each time, each token renews once.
    renewing ??= renewed(now, now.at, now.refresh).finally(() => {
        renewing = null;
    });
    return await renewing;
}

/**
 * @param {SignIn} before
 * @param {SignInIssuer} at
 * @param {string} refresh
 */
async function renewed(before, at, refresh) {
    try {
        const next = await renew(at, refresh);
        if (session()?.refresh === refresh) keep(SESSION, next);
        return next.access;
    } catch (error) {
        if (error instanceof Away && before.endsMs > Date.now()) return before.access;
        throw error;
    }
}

/**
 * Keep a token that was typed in; null forgets it, and who is signed in.
 * @param {string | null} given
 */
export function keepToken(given) {
    keep(SESSION, given === null ? null : { access: given, at: null, refresh: null, endsMs: 0 });
}

/**
 * Leave the page to sign in; the issuer sends the person back to it.
 * @param {SignInIssuer} at
 */
export async function goToSignIn(at) {
    const { address, begun } = await begin(at, pageAddress(), location.hash);
    keep(BEGUN, begun);
    location.assign(address);
}

/** Take what an issuer has answered, if it has just sent a person back, out of the address, and return to the view. */
export async function takeAnswer() {
    const parameters = new URLSearchParams(location.search);
    if (!parameters.has("state") || !(parameters.has("code") || parameters.has("error"))) return;
    const begun = /** @type {Begun | null} */ (JSON.parse(read(BEGUN) ?? "null"));
    keep(BEGUN, null);
    history.replaceState(null, "", pageAddress() + (begun?.hash ?? location.hash));
    if (begun === null) throw new Rejected(401, { detail: "no sign-in was begun in this tab" });
    keep(SESSION, await finish(begun, parameters, pageAddress()));
}

/** Forget the token, and end it at its issuer; return why that failed, else null. */
export async function signOut() {
    const ended = session();
    keepToken(null);
    try {
        if (ended?.at) await revoke(ended.at, ended.refresh ?? ended.access);
        return null;
    } catch (error) {
        return error instanceof Error ? error.message : String(error);
    }
}

function pageAddress() {
    return location.origin + location.pathname;
}

/** @returns {SignIn | null} */
function session() {
    return JSON.parse(read(SESSION) ?? "null");
}

/** @param {string} key */
function read(key) {
    try {
        return kept.get(key) ?? sessionStorage.getItem(key);
    } catch {
        return null;
    }
}

/**
 * @param {string} key
 * @param {object | null} value
 */
function keep(key, value) {
    const text = value && JSON.stringify(value);
    kept.set(key, text);
    try {
        if (text === null) sessionStorage.removeItem(key);
        else sessionStorage.setItem(key, text);
    } catch {
        // What was set above has to do.
    }
}
