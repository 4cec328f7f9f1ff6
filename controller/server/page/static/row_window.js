// The rows of a long table: only those in the window, and the one with the focus, are in the document.

import { el } from "./dom.js";

/**
 * @typedef {object} Entry A row of the table, in the document or not
 * @property {string} key Its name among all rows.
 * @property {unknown} data What it is made from; the row is made anew when this changes.
 * @property {() => HTMLElement} make
 */

/** Pixels above and below the window in which rows are there too, so that Tab and short scrolls meet rows. */
const MARGIN = 400;
/** The height of a row of one line; too small a guess only draws more rows. */
const LEAST_HEIGHT = 34;

/**
 * Return what stands in the table from top to bottom: numbers of rows, and gaps in pixels for the rows between.
 * @param {number[]} heights
 * @param {number} from The window's upper end, below the table's upper end.
 * @param {number} to
 * @param {number} focused The row that is there in any case; -1 for none.
 */
export function partsOf(heights, from, to, focused) {
    /** @type {({row: number} | {gap: number})[]} */
    const parts = [];
    let [top, gap] = [0, 0];
    for (const [row, height] of heights.entries()) {
        if (row === focused || (top + height > from && top < to)) {
            if (gap) parts.push({ gap });
            gap = 0;
            parts.push({ row });
        } else gap += height;
        top += height;
    }
    if (gap) parts.push({ gap });
    return parts;
}

/** Keeps the rows of a table's body. */
export class RowWindow {
    body = el("tbody", { role: "rowgroup" });
    /** @type {Entry[]} */
    #entries = [];
    /** @type {Map<string, {node: HTMLElement, text: string}>} The rows in the document by key. */
    #rows = new Map();
    /** @type {Map<string, number>} Heights as last seen by key. */
    #heights = new Map();
    #width = 0;
    #drawn = "";
    #listening = new AbortController();

    constructor() {
        const { signal } = this.#listening;
        for (const event of ["scroll", "resize"]) {
            window.addEventListener(event, () => this.#draw(), { signal, passive: true });
        }
    }

    end() {
        this.#listening.abort();
    }

    /** @param {Entry[]} entries */
    show(entries) {
        this.#entries = entries;
        this.#drawn = "";
        this.#draw();
    }

    /** Return the number of the row with the focus; -1 for none. */
    focused() {
        return this.#entries.findIndex(({ key }) => this.#rows.get(key)?.node.contains(document.activeElement));
    }

    /**
     * Focus the link or button of a row, wherever it is.
     * @param {number} row
     */
    focus(row) {
        if (!this.#entries[row]) return;
        this.#draw(row);
        const node = this.#rows.get(this.#entries[row].key)?.node;
        controlOf(node)?.focus({ preventScroll: true });
        node?.scrollIntoView({ block: "nearest" });
    }

    #draw(focused = this.focused()) {
        if (this.#width !== window.innerWidth) this.#heights.clear();
        this.#width = window.innerWidth;
        const { top } = this.body.getBoundingClientRect();
        const heights = this.#entries.map(({ key }) => this.#heights.get(key) ?? LEAST_HEIGHT);
        const parts = partsOf(heights, -top - MARGIN, window.innerHeight - top + MARGIN, focused);
        const drawn = JSON.stringify(parts);
        if (drawn === this.#drawn) return;
        this.#drawn = drawn;
        const had = document.activeElement;
        const rows = new Map(this.#rows);
        this.#rows.clear();
        const nodes = parts.map((part) => ("gap" in part ? gapOf(part.gap) : this.#rowOf(part.row, rows)));
        this.#place(nodes);
        // A row made anew, or moved, takes the focus from nobody.
        if (focused >= 0 && had !== document.activeElement) {
            controlOf(this.#rows.get(this.#entries[focused].key)?.node)?.focus({ preventScroll: true });
        }
        for (const [key, { node }] of this.#rows) if (node.offsetHeight) this.#heights.set(key, node.offsetHeight);
    }

    /**
     * @param {number} number
     * @param {Map<string, {node: HTMLElement, text: string}>} before
     */
    #rowOf(number, before) {
        const { key, data, make } = this.#entries[number];
        const text = JSON.stringify(data);
        const old = before.get(key);
        const row = old?.text === text ? old : { node: make(), text };
        // The row of the headings is the first.
        row.node.setAttribute("aria-rowindex", String(number + 2));
        this.#rows.set(key, row);
        return row.node;
    }

    /**
     * Put the nodes in their order; those that stand right already are left alone, with the focus.
     * @param {HTMLElement[]} nodes
     */
    #place(nodes) {
        const wanted = new Set(/** @type {Element[]} */ (nodes));
        for (const node of [...this.body.children]) if (!wanted.has(node)) node.remove();
        let place = this.body.firstChild;
        for (const node of nodes) {
            if (node === place) place = node.nextSibling;
            else this.body.insertBefore(node, place);
        }
    }
}

/** @param {HTMLElement | undefined} node */
function controlOf(node) {
    return node?.querySelector(/** @type {"a"} */ ("a, button"));
}

/** @param {number} height */
function gapOf(height) {
    return el(
        "tr",
        { class: "gap", "aria-hidden": "true" },
        el("td", { colspan: 99, style: { height: `${height}px` } }),
    );
}
