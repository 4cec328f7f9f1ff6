// The token, where the controller asks for one. It stays in this tab until the tab is closed, and out of all addresses.

const KEY = "tidemark-token";
/** @type {string | null} */
let kept = null;

/** Return the token; null for none. */
export function token() {
    if (kept !== null) return kept;
    try {
        return sessionStorage.getItem(KEY);
    } catch {
        return null;
    }
}

/**
 * Keep a token; null forgets it.
 * @param {string | null} given
 */
export function keepToken(given) {
    kept = given;
    try {
        if (given === null) sessionStorage.removeItem(KEY);
        else sessionStorage.setItem(KEY, given);
    } catch {
        // Storage is switched off: the token lasts until the page is left.
    }
}
