// What the keys do and what the signs mean.

import { badge, button, el } from "./dom.js";

const KEYS = [
    ["/", "filter the streams"],
    ["↑ ↓", "from stream to stream"],
    ["Enter", "open a stream"],
    ["f", "to the fleet"],
    ["← →", "on a chart: from slot to slot; on the bound: a little narrower, wider"],
    ["PgUp PgDn", "on the bound: much wider, narrower"],
    ["Home End", "on the bound: to 0, to the greatest"],
    ["r", "ask the controller now"],
    ["t", "light, dark, as the system"],
    ["?", "this"],
];

const SIGNS = [
    ["bad", "rows are lost, or nothing steers the job"],
    ["warn", "something is in doubt or waits for somebody"],
    ["ok", "as it should be"],
    ["info", "good to know"],
    ["idle", "over, or silent"],
    ["pause", "held by a person"],
];

/** Show it. */
export function showHelp() {
    const dialog = el("dialog", {
        class: "dialog",
        "aria-labelledby": "help-title",
        on: { close: () => dialog.remove() },
    });
    dialog.append(
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
            "A hatched stretch of a chart is unknown: nothing was reported there. It is never drawn as 0. ",
            "A share with a clock is provisional: rows can still come, so it can still change.",
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
