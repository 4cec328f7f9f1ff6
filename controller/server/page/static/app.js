// The page: which view is shown, whether the controller answers, and who calls.

import { accessCard } from "./access_card.js";
import { Away, forget, get, Rejected } from "./api.js";
import { button, el, icon, put, say } from "./dom.js";
import { Fleet } from "./fleet.js";
import { ago, moment } from "./format.js";
import { showHelp } from "./help.js";
import { Poll } from "./poll.js";
import { fleetHash, here } from "./router.js";
import { hasToken, keepToken, signedInAt, signOut, takeAnswer } from "./session.js";
import { Stream } from "./stream.js";
import { chosenTheme, nextTheme } from "./theme.js";
import { sentence } from "./words.js";

/** @import { Caller, SignInIssuer } from "api" */
/** @typedef {Fleet | Stream} View */

const EVERY_MS = 5_000;
const UNAUTHENTICATED = 401;
const FORBIDDEN = 403;
const NOT_FOUND = 404;
/** Who calls without credentials, from this machine. */
const LOOPBACK = "loopback";
const THEMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

const content = byId("content");
const banner = byId("banner");
const fresh = el("span", { class: "fresh", role: "status", "aria-live": "off" });
const theme = button("", () => showTheme(nextTheme()), { class: "button quiet" });
const who = el("span", { class: "who" });
const leaveButton = button("", leave, { class: "button quiet" });

/** @type {View | null} */
let shown = null;
/** @type {Poll | null} */
let poll = null;
/** @type {Caller | null} Who calls, and what that allows; null while it is not known. */
let caller = null;
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
    showCaller(null);
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
        if (caller === null) showCaller(await get("v1/caller", signal));
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
            : `${error.who} has not answered since ${moment(awaySinceUs)}: ${error.message}.`;
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

/**
 * Ask how a person wants to get in.
 * @param {Error | null} error Why; null when a person wants to.
 * @param {SignInIssuer | null} [left] Where the person has signed out.
 */
async function askForToken(error, left = null) {
    poll?.end();
    hideBanner();
    // Before the first view only an issuer has answered.
    const [view, failed] = [shown, hasToken() || shown === null];
    dropToken();
    const card = await accessCard({ message: error && sentence(error.message), failed, left, then: open });
    if (view !== shown) return;
    put(content, card);
    /** @type {HTMLElement | null} */ (card.querySelector("button, input"))?.focus();
}

function dropToken() {
    keepToken(null);
    forget();
    showCaller(null);
}

async function leave() {
    const at = signedInAt();
    const known = await signOut();
    await askForToken(at && Error(known === null ? "you are signed out" : `you are signed out here, but ${known}`), at);
}

/** @param {Caller | null} found Null while it is not known. */
function showCaller(found) {
    caller = found;
    const { name, role } = found === null || found.name === LOOPBACK ? { name: "", role: "" } : found;
    // Users of issuers have a number besides.
    put(who, el("b", { text: name.replace(/ \(sub .*\)$/, "") }), ` ${role ?? "no role"}`);
    who.title = name;
    leaveButton.hidden = !hasToken();
    put(leaveButton, signedInAt() === null ? "Forget the token" : "Sign out");
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
    who,
    leaveButton,
    theme,
    button("Help", showHelp, { class: "button quiet", title: "Keys and signs (?)" }),
);
showTheme(chosenTheme());
addEventListener("hashchange", open);
addEventListener("keydown", onKey);
setInterval(showFreshness, 1_000);
takeAnswer().then(open, askForToken);
