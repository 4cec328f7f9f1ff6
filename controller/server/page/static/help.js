// What the keys do and what the signs mean.

import { badge, button, el } from "./dom.js";

/** @import { Kind } from "./dom.js" */

const KEYS = [
    ["/", "filter the streams"],
    ["↑ ↓", "move from stream to stream"],
    ["Enter", "open a stream"],
    ["f", "go to the fleet"],
    ["← →", "on a chart: move from slot to slot; on the bound: a little narrower or wider"],
    ["PgUp PgDn", "on the bound: much wider or narrower"],
    ["Home End", "on the bound: to 0 or the maximum"],
    ["r", "refresh now"],
    ["t", "change the theme: light, dark, or as the system has it"],
    ["?", "show this help"],
];

/** @type {[Kind, string][]} */
const SIGNS = [
    ["critical", "critical: rows are lost, or nothing steers the job"],
    ["warning", "warning: uncertain, or waiting for somebody"],
    ["ok", "ok"],
    ["info", "good to know"],
    ["idle", "over, or silent"],
    ["pause", "held by a person"],
];

/** Show it. */
export function showHelp() {
    /** @type {HTMLDialogElement} */
    const dialog = el(
        "dialog",
        { class: "dialog", "aria-labelledby": "help-title", on: { close: () => dialog.remove() } },
        el("h2", { id: "help-title", text: "Keys and signs" }),
        el(
            "table",
            { class: "plain" },
            el(
                "tbody",
                {},
                KEYS.map(([key, text]) =>
                    el("tr", {}, el("th", { scope: "row" }, el("kbd", { text: key })), el("td", { text })),
                ),
            ),
        ),
        el(
            "ul",
            { class: "signs" },
            SIGNS.map(([kind, text]) => el("li", {}, badge(kind, text))),
        ),
        el(
            "p",
            { class: "hint" },
            "Hatched parts of a chart are unknown: nothing was reported there. They are never drawn as 0. ",
            "A share with a clock is provisional: rows can still arrive and change it. ",
            "A hatched bound is an estimate on which nothing acts yet.",
        ),
        el(
            "p",
            { class: "row end" },
            button("Close", () => dialog.close(), { class: "button primary", autofocus: true }),
        ),
    );
    document.body.append(dialog);
    dialog.showModal();
}
