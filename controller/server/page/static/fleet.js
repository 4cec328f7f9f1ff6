// The view of the fleet: how it is as a whole, what waits for approval, and all streams.

import { allPages, get, query } from "./api.js";
import { button, el, icon, put, say } from "./dom.js";
import { COLUMNS, jobRowOf, rowOf, showAges, wordsOf } from "./fleet_row.js";
import { countsOf, folded, levelOf, LEVELS, nextSort, ordered, sortOf, sortText } from "./fleet_list.js";
import { nothingYet } from "./nothing_yet.js";
import { fleetHash, here, replaceHash, streamHash } from "./router.js";
import { RowWindow } from "./row_window.js";
import { SavingsCard } from "./savings_card.js";
import { WaitingCard } from "./waiting_card.js";
import { plural } from "./words.js";

/** @import { FleetPage, FleetStream } from "api" */
/** @import { Level, Line, Sort } from "./fleet_list.js" */
/** @import { FleetPlace } from "./router.js" */
/** @import { PageShell } from "./stream.js" */
/** Savings are as of snapshots, which come once a minute. */
const SAVINGS_EVERY_MS = 30_000;
const MAX_SAVINGS = 20;
/** A fleet of more streams shows its jobs folded, unless somebody chooses. */
const MANY_STREAMS = 100;
/** @type {Record<string, number>} */
const STEPS = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };

/** The view of the fleet. */
export class Fleet {
    title = "Fleet · Tidemark";
    hasData = false;
    #root;
    #rows = new RowWindow();
    /** @type {Line[]} What the list shows, in the window or not. */
    #lines = [];
    /** @type {Set<string>} Jobs that are open. */
    #open = new Set();
    #narrowed = "";
    /** @type {FleetPage[]} */
    #pages = [];
    /** @type {FleetStream[]} */
    #streams = [];
    /** @type {Sort | null} */
    #sort;
    /** @type {Level | null} The only level that is shown. */
    #level;
    /** @type {boolean | null} What somebody chose; null when nobody did. */
    #chosen;
    #summary = el("div", { class: "summary" });
    #waiting;
    #savings = new SavingsCard();
    #savingsAt = -Infinity;
    #headings;
    #filter;
    #group;
    #found = el("span", { class: "hint", role: "status" });
    #table = el("div", { class: "card table-card" });
    #list = el("table", { class: "fleet", role: "table" });
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
        this.#chosen = options.group ? options.group === "job" : null;
        this.#filter = el("input", {
            type: "search",
            class: "filter",
            "aria-label": "Filter the streams",
            placeholder: "Filter: job, stream, mode, condition  ( / )",
            spellcheck: "false",
            value: options.q ?? "",
            on: { input: () => this.#arrange(), keydown: (event) => this.#onFilterKey(event) },
        });
        this.#group = button("By job", () => this.#toggleGroups(), {
            class: "button",
            title: "Fold the streams of each job into one row",
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
        showAges(this.#rows.body);
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

    end() {
        this.#rows.end();
    }

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
        const caption = "Streams: silent ones, critical ones and then the smallest budget left first";
        put(
            this.#list,
            el("caption", { class: "visually-hidden", text: caption }),
            el("thead", { role: "rowgroup" }, el("tr", { role: "row", "aria-rowindex": "1" }, this.#headings)),
            this.#rows.body,
        );
        put(this.#table, this.#list, this.#nothing);
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
    }

    get #byJob() {
        return this.#chosen ?? this.#streams.length > MANY_STREAMS;
    }

    #toggleGroups() {
        this.#chosen = !this.#byJob;
        this.#arrange();
    }

    #show() {
        this.#showSummary();
        this.#arrange();
    }

    /** List what fits the filter, in its order. */
    #arrange() {
        const text = this.#filter.value.trim().toLowerCase();
        const wanted = text.split(/\s+/).filter(Boolean);
        const fits = this.#streams.filter((stream) => {
            if (this.#level !== null && levelOf(stream) !== this.#level) return false;
            return !wanted.length || matches(stream, wanted);
        });
        const narrowed = `${this.#level ?? ""} ${text}`.trim();
        if (narrowed !== this.#narrowed) {
            // A search, or a choice of a level, opens the jobs of what it finds; its end folds them.
            this.#open = new Set(narrowed ? fits.map(({ job }) => job) : []);
            this.#narrowed = narrowed;
        }
        const streams = ordered(fits, this.#sort);
        const byJob = this.#byJob;
        this.#group.setAttribute("aria-pressed", String(byJob));
        this.#lines = byJob
            ? folded(streams, (job) => this.#open.has(job))
            : streams.map((stream) => ({ stream, inJob: false }));
        const all = this.#streams.length;
        say(this.#found, wanted.length || this.#level !== null ? `${fits.length} of ${all}` : "");
        this.#nothing.hidden = fits.length > 0;
        this.#table.hidden = all === 0;
        this.#start.hidden = all > 0;
        this.#list.setAttribute("aria-rowcount", String(this.#lines.length + 1));
        this.#rows.show(this.#lines.map((line) => this.#entryOf(line)));
        this.#keepPlace();
    }

    /** @param {Line} line */
    #entryOf(line) {
        if ("stream" in line) {
            const { stream, inJob } = line;
            return { key: streamHash(stream.job, stream.stream), data: line, make: () => rowOf(stream, inJob) };
        }
        const { job } = line;
        return { key: `job ${job.job}`, data: line, make: () => jobRowOf(job, () => this.#toggle(job.job)) };
    }

    /** @param {string} job */
    #toggle(job) {
        if (!this.#open.delete(job)) this.#open.add(job);
        this.#arrange();
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
                        class: `badge kind-${counts[level] ? level : "idle"} level`,
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
        this.#arrange();
    }

    #keepPlace() {
        const { view, options } = here();
        const mine = {
            q: this.#filter.value,
            sort: sortText(this.#sort),
            level: this.#level ?? "",
            group: this.#chosen === null ? "" : this.#chosen ? "job" : "stream",
        };
        const changed = Object.entries(mine).some(([name, value]) => (options[name] ?? "") !== value);
        if (view === "fleet" && changed) replaceHash(fleetHash(mine));
    }

    /** @param {KeyboardEvent} event */
    #onFilterKey(event) {
        if (event.key === "Escape") {
            if (this.#filter.value) {
                this.#filter.value = "";
                this.#arrange();
            } else this.#filter.blur();
        } else if (event.key === "ArrowDown" || event.key === "Enter") {
            const first = this.#lines.find((line) => "stream" in line)?.stream;
            if (event.key === "Enter" && this.#filter.value) {
                if (first) location.hash = streamHash(first.job, first.stream);
            } else this.#rows.focus(0);
        } else return;
        event.preventDefault();
    }

    /** @param {number} step */
    #move(step) {
        this.#rows.focus(Math.min(Math.max(this.#rows.focused() + step, 0), this.#lines.length - 1));
    }
}

/**
 * @param {FleetStream} stream
 * @param {string[]} wanted
 */
function matches(stream, wanted) {
    const words = wordsOf(stream);
    return wanted.every((word) => words.includes(word));
}
