// The page: which view is shown, whether the controller answers, and who calls.

import { Away, forget, Rejected } from "./api.js";
import { button, el, icon, put, say } from "./dom.js";
import { Fleet } from "./fleet.js";
import { ago, moment } from "./format.js";
import { showHelp } from "./help.js";
import { Poll } from "./poll.js";
import { fleetHash, here } from "./router.js";
import { keepToken, token } from "./session.js";
import { Stream } from "./stream.js";
import { chosenTheme, nextTheme } from "./theme.js";
import { sentence } from "./words.js";

/** @typedef {Fleet | Stream} View */

const EVERY_MS = 5_000;
const UNAUTHENTICATED = 401;
const FORBIDDEN = 403;
const NOT_FOUND = 404;
const THEMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

const content = byId("content");
const banner = byId("banner");
const fresh = el("span", { class: "fresh", role: "status", "aria-live": "off" });
const theme = button("", () => showTheme(nextTheme()), { class: "button quiet" });
const forgetButton = button(
    "Forget the token",
    () => {
        dropToken();
        open();
    },
    { class: "button quiet" },
);

/** @type {View | null} */
let shown = null;
/** @type {Poll | null} */
let poll = null;
/** @type {number | null} When the controller last answered. */
let answeredUs = null;
/** @type {number | null} Since when it does not. */
let awaySinceUs = null;

const shell = { refresh: () => poll?.now(), askForToken: () => askForToken(null) };

function open() {
    poll?.end();
    shown?.end();
    const place = here();
    answeredUs = null;
    hideBanner();
    forgetButton.hidden = token() === null;
    put(content, el("p", { class: "empty", text: "Loading …" }));
    const view = place.view === "stream" ? new Stream(content, place, shell) : new Fleet(content, place, shell);
    shown = view;
    document.title = view.title;
    scrollTo(0, 0);
    poll = new Poll((signal) => refresh(view, signal), EVERY_MS);
}

/**
 * @param {View} view
 * @param {AbortSignal} signal
 */
async function refresh(view, signal) {
    try {
        await view.refresh(signal);
        if (view !== shown || signal.aborted) return;
        answeredUs = Date.now() * 1_000;
        awaySinceUs = null;
        hideBanner();
    } catch (error) {
        if (view !== shown || signal.aborted) return;
        onFailure(error, view);
    }
    showFreshness();
}

/**
 * @param {unknown} error
 * @param {View} view
 */
function onFailure(error, view) {
    if (error instanceof Rejected && error.status === UNAUTHENTICATED) askForToken(error);
    else if (error instanceof Rejected && [FORBIDDEN, NOT_FOUND].includes(error.status) && !view.hasData) {
        showRejected(error);
    } else if (error instanceof Away || error instanceof Rejected) showAway(error, view);
    else {
        // A defect of the page: it must be seen, not hidden behind old figures.
        const message = error instanceof Error ? error.message : error;
        showBanner(`This page failed: ${message}. Reload it; if it fails again, please report it.`);
        reportError(error);
    }
}

/**
 * @param {Away | Rejected} error
 * @param {View} view
 */
function showAway(error, view) {
    awaySinceUs ??= Date.now() * 1_000;
    const reason =
        error instanceof Rejected
            ? `The controller answers ${error.status}: ${error.message}.`
            : `The controller has not answered since ${moment(awaySinceUs)}: ${error.message}.`;
    const old = answeredUs === null ? "" : ` The figures are from ${moment(answeredUs)}.`;
    showBanner(
        `${reason}${old} The page tries again every ${EVERY_MS / 1_000} s.`,
        button("Try now", () => poll?.now()),
    );
    document.body.classList.toggle("stale", answeredUs !== null);
    // What a view has drawn stays: it goes on from there, though other requests of its first round failed.
    if (!view.hasData) {
        put(content, el("p", { class: "empty", text: "Nothing to show until the controller answers." }));
    }
}

/** @param {Rejected} error */
function showRejected(error) {
    poll?.end();
    const forbidden = error.status === FORBIDDEN;
    put(
        content,
        el(
            "section",
            { class: "card notice" },
            el("h1", { text: error.problem.title ?? "Rejected" }),
            el("p", { text: sentence(error.message) }),
            forbidden &&
                el("p", { text: "This page needs a token that may read: of the role viewer, operator or admin." }),
            el(
                "p",
                { class: "row" },
                el(
                    "a",
                    { class: "button", href: fleetHash(), on: { click: () => here().view === "fleet" && open() } },
                    "To the fleet",
                ),
                forbidden && button("Use another token", () => askForToken(null)),
            ),
        ),
    );
}

/** @param {Rejected | null} error Why it is asked for; null when a person wants to. */
function askForToken(error) {
    poll?.end();
    hideBanner();
    const message = error && sentence(error.message);
    const wasSent = token() !== null;
    dropToken();
    const field = el("input", {
        id: "token",
        type: "password",
        autocomplete: "off",
        spellcheck: "false",
        required: true,
        "aria-describedby": "token-error",
    });
    const form = el(
        "form",
        {
            class: "card notice",
            on: {
                submit: (event) => {
                    event.preventDefault();
                    keepToken(field.value.trim());
                    open();
                },
            },
        },
        el("h1", { text: "This controller needs a token" }),
        !wasSent && message && el("p", { text: message }),
        el("label", { for: "token", text: "Token" }),
        field,
        el("p", { class: "error", id: "token-error", role: "alert" }, wasSent && message),
        el("p", {
            class: "hint",
            text: "“tidemark token create NAME --role viewer” (or operator) makes one. This tab keeps it until it is closed; nothing else does.",
        }),
        el("p", { class: "row" }, el("button", { class: "button primary", type: "submit", text: "Continue" })),
    );
    put(content, form);
    forgetButton.hidden = true;
    field.focus();
}

function dropToken() {
    keepToken(null);
    forget();
}

/**
 * @param {string} text
 * @param {Element[]} more
 */
function showBanner(text, ...more) {
    const found = banner.querySelector(".banner-text");
    if (found) {
        say(found, text);
        return;
    }
    put(
        banner,
        el(
            "div",
            { class: "banner banner-critical", role: "alert" },
            icon("critical"),
            el("span", { class: "banner-text", text }),
            more,
        ),
    );
}

function hideBanner() {
    document.body.classList.remove("stale");
    if (banner.firstChild) put(banner);
}

function showFreshness() {
    say(fresh, answeredUs === null ? "" : `updated ${ago(answeredUs)}`);
    fresh.classList.toggle("old", awaySinceUs !== null);
}

/** @param {import("./theme.js").Theme} name */
function showTheme(name) {
    put(theme, icon("theme"), name !== "auto" && name);
    theme.setAttribute("aria-label", `${THEMES[name]}. Change it.`);
    theme.title = THEMES[name];
}

/** @param {KeyboardEvent} event */
function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target instanceof Element && event.target.matches("input, textarea, select")) return;
    if (event.key === "?") showHelp();
    else if (event.key === "f") location.hash = fleetHash();
    else if (event.key === "t") showTheme(nextTheme());
    else if (event.key === "r") poll?.now();
    else if (!shown?.onKey(event)) return;
    event.preventDefault();
}

/** @param {string} id */
function byId(id) {
    const found = document.getElementById(id);
    if (found === null) throw new Error(`the document has no #${id}`);
    return found;
}

function logo() {
    const source = document.querySelector("link[rel=icon]")?.getAttribute("href");
    return el("img", { src: source, alt: "", width: "22", height: "22" });
}

put(
    byId("top"),
    el(
        "a",
        { class: "brand", href: fleetHash(), "aria-label": "Tidemark, to the fleet" },
        logo(),
        el("span", { text: "Tidemark" }),
    ),
    el("span", { class: "space" }),
    fresh,
    forgetButton,
    theme,
    button("Help", showHelp, { class: "button quiet", title: "Keys and signs (?)" }),
);
showTheme(chosenTheme());
addEventListener("hashchange", open);
addEventListener("keydown", onKey);
setInterval(showFreshness, 1_000);
open();
