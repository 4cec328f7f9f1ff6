// The page: which view is shown, whether the controller answers, and who is asking.

import { Away, Refused, forget } from "./api.js";
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

const EVERY_MS = 5_000;
const FORBIDDEN = 403;
const UNKNOWN = 404;
const UNAUTHENTICATED = 401;
const THEMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

const content = document.getElementById("content");
const banner = document.getElementById("banner");
const fresh = el("span", { class: "fresh", role: "status", "aria-live": "off" });
const theme = button("", () => showTheme(nextTheme()), { class: "button quiet" });
const leave = button(
    "Forget the token",
    () => {
        keepToken(null);
        forget();
        open();
    },
    { class: "button quiet" },
);

let shown = null;
let poll = null;
let answeredUs = null;
let awaySinceUs = null;

function open() {
    poll?.end();
    shown?.end();
    const place = here();
    answeredUs = null;
    hideBanner();
    leave.hidden = token() === null;
    put(content, el("p", { class: "empty", text: "Loading …" }));
    shown = place.view === "stream" ? new Stream(content, place, shell) : new Fleet(content, place, shell);
    document.title = shown.title;
    scrollTo(0, 0);
    const view = shown;
    poll = new Poll((signal) => turn(view, signal), EVERY_MS);
}

async function turn(view, signal) {
    try {
        await view.turn(signal);
        if (view !== shown || signal.aborted) return;
        answeredUs = Date.now() * 1_000;
        awaySinceUs = null;
        hideBanner();
    } catch (error) {
        if (view !== shown || signal.aborted) return;
        failed(error, view);
    }
    tick();
}

function failed(error, view) {
    if (error instanceof Refused && error.status === UNAUTHENTICATED) {
        askForToken(error);
    } else if (error instanceof Refused && (error.status === FORBIDDEN || error.status === UNKNOWN) && !view.hasData) {
        refused(error);
    } else if (error instanceof Away || error instanceof Refused) {
        away(error);
    } else {
        // A mistake of this page's: to be seen, not to be hidden behind old figures.
        showBanner(
            "bad",
            `This page failed: ${error.message}. Load it again; if it fails again, please tell its makers.`,
        );
        reportError(error);
    }
}

function away(error) {
    awaySinceUs ??= Date.now() * 1_000;
    const old = answeredUs === null ? "" : ` What is shown is from ${moment(answeredUs)}.`;
    const told =
        error instanceof Refused
            ? `The controller answers ${error.status}: ${error.message}.`
            : `The controller does not answer since ${moment(awaySinceUs)}: ${error.message}.`;
    showBanner(
        "bad",
        `${told}${old} Asked again every ${EVERY_MS / 1_000} s.`,
        button("Ask now", () => poll.now()),
    );
    document.body.classList.toggle("stale", answeredUs !== null);
    if (answeredUs === null)
        put(content, el("p", { class: "empty", text: "Nothing to show until the controller answers." }));
}

function refused(error) {
    poll.end();
    put(
        content,
        el(
            "section",
            { class: "card notice" },
            el("h1", { text: error.problem.title ?? "Refused" }),
            el("p", { text: sentence(error.message) }),
            error.status === FORBIDDEN &&
                el("p", {
                    text: "This page reads as a viewer does. Use a token of the role viewer, operator or admin for it.",
                }),
            el(
                "p",
                { class: "row" },
                el(
                    "a",
                    { class: "button", href: fleetHash(), on: { click: () => here().view === "fleet" && open() } },
                    "To the fleet",
                ),
                error.status === FORBIDDEN && button("Use another token", () => askForToken(null)),
            ),
        ),
    );
}

function askForToken(error) {
    poll.end();
    hideBanner();
    const field = el("input", {
        id: "token",
        type: "password",
        autocomplete: "off",
        spellcheck: "false",
        required: true,
        "aria-describedby": "token-told",
    });
    const wasSent = token() !== null;
    const told = el("p", { class: "error", id: "token-told", role: "alert" });
    if (error && wasSent) say(told, sentence(error.message));
    keepToken(null);
    forget();
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
        el("h1", { text: "This controller asks who you are" }),
        !wasSent && error && el("p", { text: sentence(error.message) }),
        el("label", { for: "token", text: "Token" }),
        field,
        told,
        el("p", {
            class: "hint",
            text: "Made by “tidemark token create NAME --role viewer” (or operator). It is kept for this tab only, until it is closed.",
        }),
        el("p", { class: "row" }, el("button", { class: "button primary", type: "submit", text: "Go on" })),
    );
    put(content, form);
    leave.hidden = true;
    field.focus();
}

function showBanner(kind, text, ...more) {
    const found = banner.querySelector(".banner-text");
    if (found) {
        say(found, text);
        return;
    }
    put(
        banner,
        el(
            "div",
            { class: `banner banner-${kind}`, role: "alert" },
            icon(kind),
            el("span", { class: "banner-text", text }),
            more,
        ),
    );
}

function hideBanner() {
    document.body.classList.remove("stale");
    if (banner.firstChild) put(banner);
}

function tick() {
    say(fresh, answeredUs === null ? "" : `updated ${ago(answeredUs)}`);
    fresh.classList.toggle("old", awaySinceUs !== null);
}

function showTheme(name) {
    put(theme, icon("theme"), name === "auto" ? "" : name);
    theme.setAttribute("aria-label", `${THEMES[name]}. Change it.`);
    theme.title = THEMES[name];
}

function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input, textarea, select")) return;
    if (event.key === "?") showHelp();
    else if (event.key === "f") location.hash = fleetHash();
    else if (event.key === "t") showTheme(nextTheme());
    else if (event.key === "r") poll?.now();
    else if (!shown?.onKey?.(event)) return;
    event.preventDefault();
}

/** What a view asks of the page around it. */
const shell = {
    /** Ask for everything again, at once. */
    refresh: () => poll?.now(),
    /** Ask for another token: the one in use may not do what was tried. */
    askForToken: () => askForToken(null),
};

put(
    document.getElementById("top"),
    el(
        "a",
        { class: "brand", href: fleetHash(), "aria-label": "Tidemark, to the fleet" },
        mark(),
        el("span", { text: "Tidemark" }),
    ),
    el("span", { class: "space" }),
    fresh,
    leave,
    theme,
    button("Help", showHelp, { class: "button quiet", title: "Keys and signs (?)" }),
);

function mark() {
    const source = document.querySelector("link[rel=icon]").href;
    return el("img", { src: source, alt: "", width: "22", height: "22" });
}

showTheme(chosenTheme());
addEventListener("hashchange", open);
addEventListener("keydown", onKey);
setInterval(tick, 1_000);
open();
