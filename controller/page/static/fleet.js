// All streams, the one with the least budget left first.

import { get, query } from "./api.js";
import { badge, el, icon, put, say } from "./dom.js";
import { budget, duration, shares, target } from "./format.js";
import { fleetHash, here, setOptions, streamHash } from "./router.js";
import { budgetKind, condition, gate, plural, rolloutState } from "./words.js";

const PAGE = 1_000;
const COLUMNS = [
    ["stream", "Stream", "text"],
    ["mode", "Mode", "text"],
    ["budget", "Budget left", "number"],
    ["now", "Complete now", "number"],
    ["window", "Over the window", "number"],
    ["target", "Target", "number"],
    ["recommended", "Recommended", "number"],
    ["applied", "Applied", "number"],
    ["effective", "Effective", "number"],
    ["rollout", "Last rollout", "text"],
    ["worst", "Worst condition", "text"],
];

/** The view of the fleet. */
export class Fleet {
    title = "Fleet · Tidemark";
    hasData = false;
    #root;
    #rows = new Map();
    #told = null;
    #body = el("tbody");
    #summary = el("div", { class: "summary" });
    #filter;
    #found = el("span", { class: "hint", role: "status" });
    #nothing = el("p", { class: "empty" });

    constructor(root, place) {
        this.#root = root;
        this.#filter = el("input", {
            type: "search",
            class: "filter",
            "aria-label": "Filter the streams",
            placeholder: "Filter: job, stream, mode, condition  ( / )",
            spellcheck: "false",
            value: place.options.q ?? "",
            on: { input: () => this.#applyFilter(), keydown: (event) => this.#onFilterKey(event) },
        });
    }

    /** Ask the controller and show what it says. */
    async turn(signal) {
        const pages = await allPages(signal);
        if (!this.hasData) this.#build();
        if (
            this.#told !== null &&
            pages.length === this.#told.length &&
            pages.every((page, n) => page === this.#told[n])
        ) {
            return;
        }
        this.#told = pages;
        this.#show(pages.flatMap((page) => page.streams));
    }

    end() {}

    /** Take a key that the page has no use for; returns whether it was one of ours. */
    onKey(event) {
        if (event.key === "/") {
            this.#filter.focus();
            this.#filter.select();
            return true;
        }
        const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
        if (!step) return false;
        this.#move(step);
        return true;
    }

    #build() {
        this.hasData = true;
        put(
            this.#root,
            el("h1", { class: "visually-hidden", text: "Fleet" }),
            el(
                "div",
                { class: "fleet-head" },
                this.#summary,
                el("div", { class: "fleet-filter" }, this.#filter, this.#found),
            ),
            el(
                "div",
                { class: "card table-card" },
                el(
                    "table",
                    { class: "fleet", role: "table" },
                    el("caption", { class: "visually-hidden", text: "Streams, the least budget left first" }),
                    el(
                        "thead",
                        { role: "rowgroup" },
                        el(
                            "tr",
                            { role: "row" },
                            COLUMNS.map(([name, text, kind]) =>
                                el("th", { scope: "col", role: "columnheader", class: `${kind} col-${name}`, text }),
                            ),
                        ),
                    ),
                    this.#body,
                ),
                this.#nothing,
            ),
        );
        this.#body.setAttribute("role", "rowgroup");
    }

    #show(streams) {
        const seen = new Set();
        let place = this.#body.firstChild;
        for (const stream of streams) {
            const key = `${stream.job}/${stream.stream}`;
            const text = JSON.stringify(stream);
            let row = this.#rows.get(key);
            seen.add(key);
            if (row === undefined || row.text !== text) {
                const node = rowOf(stream);
                if (row !== undefined) {
                    const focused = row.node.contains(document.activeElement);
                    if (place === row.node) place = node;
                    row.node.replaceWith(node);
                    if (focused) node.querySelector("a").focus();
                }
                row = { node, text, words: wordsOf(stream) };
                this.#rows.set(key, row);
            }
            if (row.node === place) place = place.nextSibling;
            else this.#body.insertBefore(row.node, place);
        }
        for (const [key, row] of this.#rows) {
            if (seen.has(key)) continue;
            row.node.remove();
            this.#rows.delete(key);
        }
        this.#summarise(streams);
        this.#applyFilter();
    }

    #summarise(streams) {
        const counted = { bad: 0, warn: 0, calm: 0 };
        let overdrawn = 0;
        for (const stream of streams) {
            const kind = gravest(stream);
            counted[kind === "bad" || kind === "warn" ? kind : "calm"] += 1;
            if (stream.budget_remaining_ppm !== null && stream.budget_remaining_ppm < 0) overdrawn += 1;
        }
        put(
            this.#summary,
            el("strong", { class: "fleet-count", text: plural(streams.length, "stream") }),
            overdrawn > 0 && badge("bad", `${overdrawn} over budget`),
            counted.bad > 0 && badge("bad", `${counted.bad} bad`),
            counted.warn > 0 && badge("warn", `${counted.warn} in doubt`),
            counted.calm > 0 && badge("ok", `${counted.calm} calm`),
        );
    }

    #applyFilter() {
        const wanted = this.#filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
        let count = 0;
        for (const { node, words } of this.#rows.values()) {
            const fits = wanted.every((word) => words.includes(word));
            node.hidden = !fits;
            if (fits) count += 1;
        }
        const all = this.#rows.size;
        say(this.#found, wanted.length ? `${count} of ${all}` : "");
        this.#nothing.hidden = count > 0;
        say(
            this.#nothing,
            all
                ? "No stream fits the filter."
                : "No stream is known yet: one appears with its first report, or when an SLO is set.",
        );
        const { view, options } = here();
        if (view === "fleet" && (options.q ?? "") !== this.#filter.value)
            setOptions(fleetHash({ q: this.#filter.value }));
    }

    #onFilterKey(event) {
        if (event.key === "Escape") {
            if (this.#filter.value) {
                this.#filter.value = "";
                this.#applyFilter();
            } else this.#filter.blur();
        } else if (event.key === "ArrowDown" || event.key === "Enter") {
            const first = this.#links()[0];
            if (event.key === "Enter" && first && this.#filter.value) first.click();
            else first?.focus();
        } else return;
        event.preventDefault();
    }

    #move(step) {
        const links = this.#links();
        const now = links.indexOf(document.activeElement);
        const next = links[Math.min(Math.max(now + step, 0), links.length - 1)];
        next?.focus();
        next?.closest("tr").scrollIntoView({ block: "nearest" });
    }

    #links() {
        return [...this.#body.children].filter((row) => !row.hidden).map((row) => row.querySelector("a"));
    }
}

async function allPages(signal) {
    const pages = [];
    let cursor = null;
    do {
        const page = await get(query("v1/fleet", { limit: PAGE, cursor }), signal);
        pages.push(page);
        cursor = page.next_cursor;
    } while (cursor);
    return pages;
}

function gravest(stream) {
    if (stream.budget_remaining_ppm !== null && stream.budget_remaining_ppm < 0) return "bad";
    return stream.worst ? condition(stream.worst.type).kind : "ok";
}

function wordsOf(stream) {
    return [
        stream.job,
        stream.stream,
        stream.mode,
        stream.worst ? condition(stream.worst.type).name : "",
        stream.worst?.type ?? "",
        stream.rollout ? rolloutState(stream.rollout.state).name : "",
        stream.paused ? "paused" : "",
        stream.pin ? "pinned" : "",
    ]
        .join(" ")
        .toLowerCase();
}

function rowOf(stream) {
    const cells = {
        stream: el(
            "a",
            { class: "stream-link", href: streamHash(stream.job, stream.stream) },
            el("span", { class: "job", text: stream.job }),
            el("span", { class: "slash", text: " / " }),
            el("strong", { text: stream.stream }),
        ),
        mode: [
            el("span", { class: "mode", text: stream.mode }),
            stream.paused && badge("pause", "paused"),
            stream.pin && badge("pause", "pinned"),
        ],
        budget: meter(stream.budget_remaining_ppm),
        now: [
            el("span", { text: shares(stream.completeness_min_ppm, stream.completeness_max_ppm) }),
            stream.provisional && provisional(),
        ],
        window: shares(stream.window_min_ppm, stream.window_max_ppm),
        target: target(stream.target_ppm),
        recommended: boundCell(stream.recommended_bound_ms, differs(stream.recommended_bound_ms, stream.in_use_bound_ms)),
        applied: boundCell(stream.applied_bound_ms ?? stream.in_use_bound_ms, false),
        effective: boundCell(stream.effective_bound_ms, false),
        rollout: stream.rollout ? rolloutCell(stream.rollout) : el("span", { class: "dim", text: "none" }),
        worst: worstCell(stream),
    };
    return el(
        "tr",
        { role: "row", on: { click: (event) => follow(event) } },
        COLUMNS.map(([name, text, kind]) =>
            el(
                "td",
                { role: "cell", class: `${kind} col-${name}`, data: { label: text } },
                el("span", { class: "cell" }, cells[name]),
            ),
        ),
    );
}

function provisional() {
    return el(
        "span",
        { class: "provisional", title: "Provisional: rows can still come, so this can still change." },
        icon("open"),
        el("span", { class: "visually-hidden", text: " provisional" }),
    );
}

function follow(event) {
    // The whole row leads there; the link alone is what keyboards and readers meet.
    if (event.target.closest("a") || getSelection().toString()) return;
    event.currentTarget.querySelector("a").click();
}

function boundCell(ms, changes) {
    return el("span", {
        class: changes ? "changes" : null,
        text: duration(ms),
        title: changes ? "Other than the bound in use" : null,
    });
}

function differs(recommended, inUse) {
    return recommended !== null && inUse !== null && recommended !== inUse;
}

function meter(ppm) {
    const kind = budgetKind(ppm);
    const wide = ppm === null ? 0 : ppm < 0 ? 100 : Math.min(ppm / 10_000, 100);
    return el(
        "span",
        { class: `meter meter-${kind}` },
        el(
            "span",
            { class: "meter-bar", "aria-hidden": "true" },
            el("span", { class: "meter-fill", style: { width: `${wide}%` } }),
        ),
        el("span", { class: "meter-sign" }, kind === "bad" && icon("bad")),
        el("span", { class: "meter-text", text: budget(ppm) }),
    );
}

function rolloutCell(rollout) {
    const { kind, name } = rolloutState(rollout.state);
    return badge(kind, name, rollout.held_by ? gate(rollout.held_by) : null);
}

function worstCell(stream) {
    if (!stream.worst) return el("span", { class: "dim", text: "none" });
    const { kind, name } = condition(stream.worst.type);
    const more = stream.alerts.filter((type) => type !== stream.worst.type);
    return [
        badge(kind, name, stream.worst.detail),
        more.length > 0 &&
            el("span", {
                class: "dim",
                title: more.map((type) => condition(type).name).join(", "),
                text: ` +${more.length}`,
            }),
    ];
}
