// The view of the fleet: how it is as a whole, what waits for approval, and all streams.

import { allPages, get, query } from "./api.js";
import { button, el, icon, put, say } from "./dom.js";
import { COLUMNS, rowOf, showAges, wordsOf } from "./fleet_row.js";
import { countsOf, levelOf, LEVELS, nextSort, ordered, sortOf, sortText } from "./fleet_list.js";
import { nothingYet } from "./nothing_yet.js";
import { fleetHash, here, replaceHash } from "./router.js";
import { SavingsCard } from "./savings_card.js";
import { WaitingCard } from "./waiting_card.js";
import { plural } from "./words.js";

/** @import { FleetPage, FleetStream } from "api" */
/** @import { Level, Sort } from "./fleet_list.js" */
/** @import { FleetPlace } from "./router.js" */
/** @import { PageShell } from "./stream.js" */
/**
 * @typedef {object} Row
 * @property {HTMLElement} node
 * @property {string} text Its data as text.
 * @property {string} words
 * @property {Level} level
 * @property {string} job
 */

/** Savings are as of snapshots, which come once a minute. */
const SAVINGS_EVERY_MS = 30_000;
const MAX_SAVINGS = 20;
/** @type {Record<string, number>} */
const STEPS = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };

/** The view of the fleet. */
export class Fleet {
    title = "Fleet · Tidemark";
    hasData = false;
    #root;
    /** @type {Map<string, Row>} Rows by job and stream. */
    #rows = new Map();
    /** @type {Map<string, HTMLElement>} Headings by job. */
    #groups = new Map();
    /** @type {FleetPage[]} */
    #pages = [];
    /** @type {FleetStream[]} */
    #streams = [];
    /** @type {Sort | null} */
    #sort;
    /** @type {Level | null} The only level that is shown. */
    #level;
    #byJob;
    #body = el("tbody", { role: "rowgroup" });
    #summary = el("div", { class: "summary" });
    #waiting;
    #savings = new SavingsCard();
    #savingsAt = -Infinity;
    #headings;
    #filter;
    #group;
    #found = el("span", { class: "hint", role: "status" });
    #table = el("div", { class: "card table-card" });
    #nothing = el("p", { class: "empty", text: "No stream matches the filter." });
    #start = nothingYet();

    /**
     * @param {Element} root
     * @param {FleetPlace} place
     * @param {PageShell} shell
     */
    constructor(root, { options }, shell) {
        this.#root = root;
        this.#waiting = new WaitingCard(shell);
        this.#sort = sortOf(options.sort);
        this.#level = LEVELS.find((level) => level === options.level) ?? null;
        this.#byJob = options.group === "job";
        this.#filter = el("input", {
            type: "search",
            class: "filter",
            "aria-label": "Filter the streams",
            placeholder: "Filter: job, stream, mode, condition  ( / )",
            spellcheck: "false",
            value: options.q ?? "",
            on: { input: () => this.#applyFilter(), keydown: (event) => this.#onFilterKey(event) },
        });
        this.#group = button("By job", () => this.#toggleGroups(), {
            class: "button",
            title: "Group the streams by job",
        });
        this.#headings = COLUMNS.map(([name, text, kind]) => this.#heading(name, text, kind));
    }

    /**
     * Fetch the fleet and show what has changed.
     * @param {AbortSignal} signal
     */
    async refresh(signal) {
        /** @type {Promise<FleetPage[]>} */
        const listed = allPages("v1/fleet", {}, signal);
        const [pages] = await Promise.all([listed, this.#refreshSavings(signal)]);
        const first = !this.hasData;
        if (first) this.#build();
        showAges(this.#body);
        // Answers that have not changed are the same objects.
        if (!first && pages.length === this.#pages.length && pages.every((page, n) => page === this.#pages[n])) return;
        this.#pages = pages;
        this.#streams = pages.flatMap((page) => page.streams);
        await this.#waiting.show(this.#streams, signal);
        this.#show();
    }

    /** @param {AbortSignal} signal */
    async #refreshSavings(signal) {
        if (performance.now() - this.#savingsAt < SAVINGS_EVERY_MS) return;
        this.#savings.show(await get(query("v1/savings", { limit: MAX_SAVINGS }), signal));
        this.#savingsAt = performance.now();
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
            this.#table,
            el(
                "table",
                { class: "fleet", role: "table" },
                el("caption", {
                    class: "visually-hidden",
                    text: "Streams, silent ones and then the smallest budget left first",
                }),
                el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, this.#headings)),
                this.#body,
            ),
            this.#nothing,
        );
        put(
            this.#root,
            el("h1", { class: "visually-hidden", text: "Fleet" }),
            el(
                "div",
                { class: "fleet-head" },
                this.#summary,
                el("div", { class: "fleet-filter" }, this.#found, this.#group, this.#filter),
            ),
            this.#waiting.node,
            this.#savings.node,
            this.#table,
            this.#start,
        );
        this.#markOrder();
    }

    /**
     * @param {string} name
     * @param {string} text
     * @param {string} kind
     */
    #heading(name, text, kind) {
        const press = () => {
            this.#sort = nextSort(this.#sort, name);
            this.#markOrder();
            this.#arrange();
            this.#keepPlace();
        };
        return el(
            "th",
            { scope: "col", role: "columnheader", class: `${kind} col-${name}`, data: { column: name } },
            button(text, press, { class: "sort" }),
        );
    }

    #markOrder() {
        for (const heading of this.#headings) {
            const mine = this.#sort?.column === heading.dataset.column;
            heading.setAttribute("aria-sort", !mine ? "none" : this.#sort?.descending ? "descending" : "ascending");
        }
        this.#group.setAttribute("aria-pressed", String(this.#byJob));
        this.#table.classList.toggle("by-job", this.#byJob);
    }

    #toggleGroups() {
        this.#byJob = !this.#byJob;
        this.#markOrder();
        this.#arrange();
        this.#keepPlace();
    }

    #show() {
        const seen = new Set();
        for (const stream of this.#streams) {
            const key = keyOf(stream);
            seen.add(key);
            this.#makeRow(key, stream);
        }
        for (const [key, row] of this.#rows) {
            if (seen.has(key)) continue;
            row.node.remove();
            this.#rows.delete(key);
        }
        this.#showSummary();
        this.#arrange();
    }

    /**
     * Make the row of a stream anew when its data have changed.
     * @param {string} key
     * @param {FleetStream} stream
     */
    #makeRow(key, stream) {
        const text = JSON.stringify(stream);
        const old = this.#rows.get(key);
        if (old?.text === text) return;
        const node = rowOf(stream);
        if (old) {
            const focused = old.node.contains(document.activeElement);
            old.node.replaceWith(node);
            if (focused) node.querySelector("a")?.focus();
        }
        this.#rows.set(key, { node, text, words: wordsOf(stream), level: levelOf(stream), job: stream.job });
    }

    /** Put the rows in their order; those that stand right already are left alone, with the focus. */
    #arrange() {
        const streams = ordered(this.#streams, this.#sort, this.#byJob);
        /** @type {Element[]} */
        const nodes = [];
        let job = null;
        for (const stream of streams) {
            if (this.#byJob && stream.job !== job) nodes.push(this.#groupOf(stream.job));
            job = stream.job;
            const row = this.#rows.get(keyOf(stream));
            if (row) nodes.push(row.node);
        }
        if (!this.#byJob) for (const group of this.#groups.values()) group.remove();
        let place = this.#body.firstChild;
        for (const node of nodes) {
            if (node === place) place = node.nextSibling;
            else this.#body.insertBefore(node, place);
        }
        this.#applyFilter();
    }

    /** @param {string} job */
    #groupOf(job) {
        let node = this.#groups.get(job);
        if (!node) {
            node = el(
                "tr",
                { role: "row", class: "group" },
                el("th", { scope: "rowgroup", role: "rowheader", colspan: COLUMNS.length, text: job }),
            );
            this.#groups.set(job, node);
        }
        return node;
    }

    #showSummary() {
        const counts = countsOf(this.#streams);
        put(
            this.#summary,
            el("strong", { class: "fleet-count", text: plural(this.#streams.length, "stream") }),
            LEVELS.map((level) =>
                el(
                    "button",
                    {
                        type: "button",
                        class: `badge badge-${counts[level] ? level : "idle"} level`,
                        "aria-pressed": String(this.#level === level),
                        title: `Show only these`,
                        on: { click: () => this.#showLevel(level) },
                    },
                    icon(level),
                    el("span", { text: `${counts[level]} ${level}` }),
                ),
            ),
        );
    }

    /** @param {Level} level */
    #showLevel(level) {
        this.#level = this.#level === level ? null : level;
        for (const [n, one] of [...this.#summary.querySelectorAll("button")].entries()) {
            one.setAttribute("aria-pressed", String(LEVELS[n] === this.#level));
        }
        this.#applyFilter();
    }

    #applyFilter() {
        const wanted = this.#filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
        const jobs = new Set();
        let shown = 0;
        for (const { node, words, level, job } of this.#rows.values()) {
            const fits = this.#level === null || level === this.#level;
            node.hidden = !fits || !wanted.every((word) => words.includes(word));
            if (node.hidden) continue;
            shown += 1;
            jobs.add(job);
        }
        for (const [job, node] of this.#groups) node.hidden = !jobs.has(job);
        const all = this.#rows.size;
        say(this.#found, wanted.length || this.#level !== null ? `${shown} of ${all}` : "");
        this.#nothing.hidden = shown > 0;
        this.#table.hidden = all === 0;
        this.#start.hidden = all > 0;
        this.#keepPlace();
    }

    #keepPlace() {
        const { view, options } = here();
        const mine = {
            q: this.#filter.value,
            sort: sortText(this.#sort),
            level: this.#level ?? "",
            group: this.#byJob ? "job" : "",
        };
        const changed = Object.entries(mine).some(([name, value]) => (options[name] ?? "") !== value);
        if (view === "fleet" && changed) replaceHash(fleetHash(mine));
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

/** @param {FleetStream} stream */
function keyOf({ job, stream }) {
    return `${job}/${stream}`;
}
