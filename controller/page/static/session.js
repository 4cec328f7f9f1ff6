// The token, where the controller asks for one: for this tab, until it is closed, and never in an address.

const KEY = "tidemark-token";
let kept = null;

/** The token; null for none. */
export function token() {
    if (kept !== null) return kept;
    try {
        return sessionStorage.getItem(KEY);
    } catch {
        return null;
    }
}

/** Keep a token; null forgets it. */
export function keepToken(given) {
    kept = given;
    try {
        if (given === null) sessionStorage.removeItem(KEY);
        else sessionStorage.setItem(KEY, given);
    } catch {
        // Storage is switched off: it is known until the page is left.
    }
}
