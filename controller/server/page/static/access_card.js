// How a person gets in: by signing in at an issuer that the controller trusts, or with a token.

import { get } from "./api.js";
import { button, el, put } from "./dom.js";
import { goToSignIn, keepToken } from "./session.js";

/** @import { SignIn, SignInIssuer } from "api" */

/**
 * Return the card, once the controller has said where people sign in.
 * @param {{message: string | null, failed: boolean, left: SignInIssuer | null, then: () => void}} options Why it is
 *     shown, and whether because something failed; where the person has signed out; and what follows a token.
 */
export async function accessCard({ message, failed, left, then }) {
    const { issuers } = /** @type {SignIn} */ (await get("v1/sign-in").catch(() => ({ issuers: [] })));
    const error = el("p", { class: "error", id: "token-error", role: "alert" }, failed && message);
    const field = el("input", {
        id: "token",
        type: "password",
        autocomplete: "off",
        spellcheck: "false",
        required: true,
        "aria-describedby": "token-error",
    });
    const hint =
        "“tidemark token create NAME --role viewer” (or operator) makes one. This tab keeps it until it is closed; nothing else does.";
    const send = el("button", { class: `button ${issuers.length ? "" : "primary"}`, type: "submit", text: "Continue" });
    const byToken = [
        el("label", { for: "token", text: "Token" }),
        field,
        el("p", { class: "hint", text: hint }),
        el("p", { class: "row" }, send),
    ];
    const submit = (/** @type {Event} */ event) => {
        event.preventDefault();
        keepToken(field.value.trim());
        then();
    };
    return el(
        "form",
        { class: "card notice", on: { submit } },
        el("h1", { text: issuers.length ? "Sign in" : "This controller needs a token" }),
        // That no token was sent says nothing to who signs in.
        !failed && message && (left || !issuers.length) && el("p", { text: message }),
        error,
        issuers.map((at) => wayIn(at, error)),
        left?.end_session_endpoint &&
            el(
                "p",
                { class: "hint" },
                `${left.name} still knows you, for other applications too. `,
                el("a", { href: left.end_session_endpoint, text: "Sign out there" }),
            ),
        issuers.length ? el("details", {}, el("summary", { text: "With a token" }), ...byToken) : byToken,
    );
}

/**
 * @param {SignInIssuer} at
 * @param {Element} error
 */
function wayIn(at, error) {
    let why = null;
    if (!at.authorization_endpoint || !at.token_endpoint) why = "now: the controller cannot read how";
    // Browsers have no cryptography for pages that could be changed on the way.
    else if (!isSecureContext) why = "here: open this page by https";
    if (why !== null) return el("p", { class: "hint", text: `Nobody can sign in at ${at.name} ${why}.` });
    const go = () => goToSignIn(at).catch((/** @type {Error} */ failure) => put(error, failure.message));
    return button(`Sign in at ${at.name}`, go, { class: "button primary" });
}
