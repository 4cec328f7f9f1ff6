// The decision log: what changed, when, why, and by whom.

import { get, query } from "./api.js";
import { Card } from "./card.js";
import { button, el, put } from "./dom.js";
import { fullMoment, localTimes, moment } from "./format.js";
import { changeName, changeValue, spaced } from "./words.js";

/** @import { Event, EventPage } from "api" */

const MORE = 50;
const LONG = 170;
const MAX_CHANGES = 6;

/** The card. */
export class EventsPanel {
    #card = new Card("Decision log", "events");
    node = this.#card.node;
    #path;
    #list = el("ol", { class: "events" });
    #more = button("Older", () => this.#loadOlder(), { class: "button small" });
    /** @type {Event[]} */
    #newest = [];
    /** @type {Event[]} */
    #older = [];
    /** @type {string | null} */
    #cursor = null;

    /** @param {string} path */
    constructor(path) {
        this.#path = path;
        put(this.#card.body, this.#list, el("p", { class: "row" }, this.#more));
    }

    /** @param {EventPage} page */
    show(page) {
        this.#card.loaded();
        this.#newest = page.events;
        if (!this.#older.length) this.#cursor = page.next_cursor;
        this.#fill();
    }

    async #loadOlder() {
        this.#more.disabled = true;
        try {
            /** @type {EventPage} */
            const page = await get(query(`${this.#path}/events`, { limit: MORE, cursor: this.#cursor }));
            this.#older.push(...page.events);
            this.#cursor = page.next_cursor;
            this.#fill();
        } catch {
            // The next refresh of the view shows what is wrong.
        }
        this.#more.disabled = false;
    }

    #fill() {
        const known = new Set(this.#newest.map((event) => event.id));
        const events = [...this.#newest, ...this.#older.filter((event) => !known.has(event.id))];
        put(
            this.#list,
            events.length
                ? events.map(eventItem)
                : el("li", { class: "empty small", text: "Nothing has changed yet." }),
        );
        this.#more.hidden = this.#cursor === null;
    }
}

/** @param {Event} event */
function eventItem(event) {
    return el(
        "li",
        {},
        el("time", {
            class: "event-time",
            datetime: new Date(event.last_us / 1_000).toISOString(),
            title: fullMoment(event.last_us),
            text: moment(event.last_us),
        }),
        el(
            "div",
            {},
            el("strong", { text: spaced(event.kind) }),
            event.count > 1 && el("span", { class: "dim", text: ` ×${event.count}` }),
            event.by && el("span", { class: "dim", text: ` by ${event.by}` }),
        ),
        el("div", { class: "event-why" }, folded(localTimes(event.reason))),
        changes(event),
    );
}

/** @param {string} text */
function folded(text) {
    if (text.length <= LONG) return el("p", { text });
    const cut = text.lastIndexOf(" ", LONG - 30);
    return el(
        "details",
        {},
        el("summary", { text: `${text.slice(0, cut)} …` }),
        el("p", { text: `… ${text.slice(cut + 1)}` }),
    );
}

/** @param {Event} event */
function changes(event) {
    const [before, after] = [fieldsOf(event.before), fieldsOf(event.after)];
    /** @type {(name: string) => string[]} */
    const both = (name) => [before, after].map((fields) => changeValue(name, fields[name] ?? null));
    const names = Object.keys({ ...before, ...after }).filter((name) => both(name)[0] !== both(name)[1]);
    if (!names.length) return null;
    return el(
        "ul",
        { class: "event-change" },
        names.slice(0, MAX_CHANGES).map((name) => {
            const [from, to] = both(name);
            const text = before[name] === undefined ? to : `${from} → ${to}`;
            return el("li", {}, name && el("span", { class: "dim", text: `${changeName(name)} ` }), text);
        }),
        names.length > MAX_CHANGES && el("li", { class: "dim", text: `and ${names.length - MAX_CHANGES} more` }),
    );
}

/**
 * Return the fields of what an event keeps: JSON as the release that wrote it had it, or a text.
 * @param {string | null} text
 * @returns {Record<string, unknown>}
 */
function fieldsOf(text) {
    if (text === null) return {};
    let value;
    try {
        value = JSON.parse(text);
    } catch {
        return { "": text };
    }
    if (value === null) return {};
    return typeof value === "object" && !Array.isArray(value) ? value : { "": value };
}
