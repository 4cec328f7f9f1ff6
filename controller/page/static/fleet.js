// The view of the fleet: all streams, the one with the smallest budget left first.

import { get, query } from "./api.js";
import { badge, el, put, say } from "./dom.js";
import { headings, rowOf, wordsOf } from "./fleet_row.js";
import { fleetHash, here, replaceHash } from "./router.js";
import { plural } from "./words.js";

/** @import { FleetPage, FleetStream } from "api" */
/** @import { FleetPlace } from "./router.js" */
/** @typedef {{node: HTMLElement, text: string, words: string}} Row The element, its data as text, and its words */

const PAGE_SIZE = 1_000;
/** @type {Record<string, number>} */
const STEPS = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };

/** The view of the fleet. */
export class Fleet {
    title = "Fleet · Tidemark";
    hasData = false;
    #root;
    /** @type {Map<string, Row>} Rows by job and stream. */
    #rows = new Map();
    /** @type {FleetPage[]} */
    #pages = [];
    #body = el("tbody", { role: "rowgroup" });
    #summary = el("div", { class: "summary" });
    #filter;
    #found = el("span", { class: "hint", role: "status" });
    #nothing = el("p", { class: "empty" });

    /**
     * @param {Element} root
     * @param {FleetPlace} place
     */
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

    /**
     * Fetch the fleet and show what has changed.
     * @param {AbortSignal} signal
     */
    async refresh(signal) {
        const pages = await allPages(signal);
        const first = !this.hasData;
        if (first) this.#build();
        // Answers that have not changed are the same objects.
        if (!first && pages.length === this.#pages.length && pages.every((page, n) => page === this.#pages[n])) return;
        this.#pages = pages;
        this.#show(pages);
    }

    end() {}

    /**
     * Handle a key that the page does not use; return whether this view does.
     * @param {KeyboardEvent} event
     */
    onKey(event) {
        if (event.key === "/") {
            this.#filter.focus();
            this.#filter.select();
            return true;
        }
        const step = STEPS[event.key];
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
                    el("caption", { class: "visually-hidden", text: "Streams, the smallest budget left first" }),
                    el("thead", { role: "rowgroup" }, headings()),
                    this.#body,
                ),
                this.#nothing,
            ),
        );
    }

    /** @param {FleetPage[]} pages */
    #show(pages) {
        const streams = pages.flatMap((page) => page.streams);
        const seen = new Set();
        let place = this.#body.firstChild;
        for (const stream of streams) {
            const key = `${stream.job}/${stream.stream}`;
            seen.add(key);
            const { node, replaced } = this.#row(key, stream);
            if (place === replaced) place = node;
            if (node === place) place = place.nextSibling;
            else this.#body.insertBefore(node, place);
        }
        for (const [key, row] of this.#rows) {
            if (seen.has(key)) continue;
            row.node.remove();
            this.#rows.delete(key);
        }
        put(this.#summary, summaryOf(streams));
        this.#applyFilter();
    }

    /**
     * Return the row of a stream, made anew when its data have changed, and the row that it has replaced.
     * @param {string} key
     * @param {FleetStream} stream
     */
    #row(key, stream) {
        const text = JSON.stringify(stream);
        const old = this.#rows.get(key);
        if (old?.text === text) return { node: old.node, replaced: undefined };
        const node = rowOf(stream);
        if (old) {
            const focused = old.node.contains(document.activeElement);
            old.node.replaceWith(node);
            if (focused) node.querySelector("a")?.focus();
        }
        this.#rows.set(key, { node, text, words: wordsOf(stream) });
        return { node, replaced: old?.node };
    }

    #applyFilter() {
        const wanted = this.#filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
        let shown = 0;
        for (const { node, words } of this.#rows.values()) {
            node.hidden = !wanted.every((word) => words.includes(word));
            if (!node.hidden) shown += 1;
        }
        const all = this.#rows.size;
        say(this.#found, wanted.length ? `${shown} of ${all}` : "");
        this.#nothing.hidden = shown > 0;
        say(
            this.#nothing,
            all
                ? "No stream matches the filter."
                : "No stream is known yet: a stream appears with its first report, or when its SLO is set.",
        );
        const { view, options } = here();
        if (view === "fleet" && (options.q ?? "") !== this.#filter.value) {
            replaceHash(fleetHash({ q: this.#filter.value }));
        }
    }

    /** @param {KeyboardEvent} event */
    #onFilterKey(event) {
        if (event.key === "Escape") {
            if (this.#filter.value) {
                this.#filter.value = "";
                this.#applyFilter();
            } else this.#filter.blur();
        } else if (event.key === "ArrowDown" || event.key === "Enter") {
            const [first] = this.#links();
            if (event.key === "Enter" && this.#filter.value) first?.click();
            else first?.focus();
        } else return;
        event.preventDefault();
    }

    /** @param {number} step */
    #move(step) {
        const links = this.#links();
        const now = links.findIndex((link) => link.matches(":focus"));
        const next = links[Math.min(Math.max(now + step, 0), links.length - 1)];
        next?.focus();
        next?.closest("tr")?.scrollIntoView({ block: "nearest" });
    }

    #links() {
        return [...this.#body.querySelectorAll(/** @type {"a"} */ ("tr:not([hidden]) a.stream-link"))];
    }
}

/** @param {AbortSignal} signal */
async function allPages(signal) {
    const pages = [];
    let cursor = null;
    do {
        /** @type {FleetPage} */
        const page = await get(query("v1/fleet", { limit: PAGE_SIZE, cursor }), signal);
        pages.push(page);
        cursor = page.next_cursor;
    } while (cursor);
    return pages;
}

/** @param {FleetStream[]} streams */
function summaryOf(streams) {
    const overdrawn = streams.filter(isOverdrawn).length;
    const counts = { critical: 0, warning: 0, ok: 0 };
    for (const stream of streams) {
        const severity = isOverdrawn(stream) ? "critical" : stream.worst?.severity;
        counts[severity === "critical" || severity === "warning" ? severity : "ok"] += 1;
    }
    return [
        el("strong", { class: "fleet-count", text: plural(streams.length, "stream") }),
        overdrawn > 0 && badge("critical", `${overdrawn} over budget`),
        counts.critical > 0 && badge("critical", `${counts.critical} critical`),
        counts.warning > 0 && badge("warning", `${counts.warning} warning`),
        counts.ok > 0 && badge("ok", `${counts.ok} ok`),
    ];
}

/** @param {FleetStream} stream */
function isOverdrawn(stream) {
    return stream.budget_remaining_ppm !== null && stream.budget_remaining_ppm < 0;
}
