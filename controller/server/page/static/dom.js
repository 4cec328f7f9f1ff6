// Elements. Everything put into them is text: nothing in the page makes markup of data.

/** @typedef {Node | string | number | false | null | undefined | unknown[]} Child What `el` and `put` take; lists may be nested */
/** @typedef {"critical" | "warning" | "ok" | "info" | "idle" | "pause"} Kind A severity, or a state of its own */
/**
 * @typedef {object} Special Attributes with a meaning of their own
 * @property {string | null} [class]
 * @property {string} [text]
 * @property {Record<string, (event: any) => unknown>} [on] Listeners by event
 * @property {Record<string, string>} [data] Attributes data-*
 * @property {Record<string, string>} [style] Properties of the style
 */
/** @typedef {Special & Record<string, unknown>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an element. Attributes that are null, undefined or false are left out, as are such children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {Child[]} children
 */
export function el(tag, attributes = {}, ...children) {
    return filled(document.createElement(tag), attributes, children);
}

/**
 * @template {Element} T
 * @param {T} node
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function filled(node, attributes, children) {
    const { class: classes, text, on = {}, data = {}, style = {}, ...others } = attributes;
    if (classes) node.setAttribute("class", classes);
    if (text !== undefined) node.textContent = text;
    for (const [event, then] of Object.entries(on)) node.addEventListener(event, then);
    if (node instanceof HTMLElement) {
        Object.assign(node.dataset, data);
        for (const [name, value] of Object.entries(style)) node.style.setProperty(name, value);
    }
    for (const [name, value] of Object.entries(others)) {
        if (value === null || value === undefined || value === false) continue;
        if (name === "value" && node instanceof HTMLInputElement) node.value = String(value);
        else node.setAttribute(name, value === true ? "" : String(value));
    }
    append(node, children);
    return node;
}

/**
 * @param {Element} node
 * @param {Child[]} children
 */
function append(node, children) {
    for (const child of children) {
        if (Array.isArray(child)) append(node, /** @type {Child[]} */ (child));
        else if (child !== null && child !== undefined && child !== false) {
            node.append(child instanceof Node ? child : String(child));
        }
    }
}

/**
 * Replace what is in `node`. The control of the same name has the focus afterwards, so that a refresh takes it from nobody.
 * @param {Element} node
 * @param {Child[]} children
 */
export function put(node, ...children) {
    const before = document.activeElement;
    const focused = before instanceof HTMLElement && before !== node && node.contains(before) ? before : null;
    node.replaceChildren();
    append(node, children);
    if (focused) refocus(focused, node);
}

/**
 * Focus a control, or where it was made anew the one of the same kind and name.
 * @param {HTMLElement} control
 * @param {Element} [within]
 */
export function refocus(control, within = document.body) {
    const name = nameOf(control);
    const again = control.isConnected
        ? control
        : [...within.querySelectorAll(control.localName)].find((one) => nameOf(one) === name);
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
}

/** @param {Element} control */
function nameOf(control) {
    return control.id || control.getAttribute("aria-label") || control.textContent;
}

/**
 * Set the text of `node`; leave the node alone when it has that text already.
 * @param {Element} node
 * @param {string} text
 */
export function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

/**
 * Return an element of a drawing.
 * @param {"svg" | "path"} tag
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
export function svg(tag, attributes, ...children) {
    return filled(document.createElementNS(SVG, tag), attributes, children);
}

const CIRCLE = "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1z";
/** @type {Record<Kind | "open" | "theme", [string, string]>} The outline and the mark of each sign. */
export const SHAPES = {
    critical: ["M8 1.500 15 14H1z", "M8 6v4M8 11.500v.8"],
    warning: ["M8 1 15 8 8 15 1 8z", "M8 5v3.500M8 10.300v.8"],
    ok: [CIRCLE, "M4.800 8.200 7 10.500l4.300-4.700"],
    info: [CIRCLE, "M8 7v4.500M8 4.300v.8"],
    idle: [CIRCLE, "M5 8h6"],
    open: [CIRCLE, "M8 4.500V8l2.500 1.800"],
    theme: [CIRCLE, "M8 1v14M8 4.500h5M8 8h7M8 11.500h5"],
    pause: ["M2 2h12v12H2z", "M6 5v6M10 5v6"],
};

/**
 * Return a sign. Each kind has its own shape, so that colour is never the only difference.
 * @param {keyof SHAPES} kind
 */
export function icon(kind) {
    const [outline, mark] = SHAPES[kind];
    return svg(
        "svg",
        { class: `icon icon-${kind}`, viewBox: "0 0 16 16", width: "14", height: "14", "aria-hidden": "true" },
        svg("path", { class: "icon-shape", d: outline }),
        svg("path", { class: "icon-mark", d: mark }),
    );
}

/**
 * Return a small label with a sign.
 * @param {Kind} kind
 * @param {string} text
 * @param {string | null} [title]
 */
export function badge(kind, text, title = null) {
    return el("span", { class: `badge kind-${kind}`, title }, icon(kind), el("span", { text }));
}

/**
 * Return a button.
 * @param {string} text
 * @param {() => unknown} then
 * @param {Attributes} [attributes]
 */
export function button(text, then, attributes = {}) {
    return el("button", { type: "button", class: "button", ...attributes, on: { click: () => then() } }, text);
}

/** The button of a dialog that does what the dialog is for. */
export function submitButton(/** @type {string} */ text, kind = "primary") {
    return el("button", { type: "submit", class: `button ${kind}`, text });
}

/**
 * Return a table of figures. The first cell of a row is its heading; the last one of a short row spans the rest.
 * @param {{text: string, class?: string}[]} columns Texts of the head; without any text there is no head.
 * @param {{cells: Child[], title?: string}[]} rows
 * @param {{class?: string, caption?: string}} [options]
 */
export function figures(columns, rows, options = {}) {
    const headed = columns.some((column) => column.text);
    return el(
        "table",
        { class: `figures ${options.class ?? ""}` },
        options.caption && el("caption", { class: "visually-hidden", text: options.caption }),
        headed &&
            el(
                "thead",
                {},
                el(
                    "tr",
                    {},
                    columns.map((column) => el("th", { scope: "col", class: column.class, text: column.text })),
                ),
            ),
        el(
            "tbody",
            {},
            rows.map(({ cells, title }) =>
                el(
                    "tr",
                    { title },
                    cells.map((cell, n) =>
                        n === 0
                            ? el("th", { scope: "row" }, cell)
                            : n === cells.length - 1 && cells.length < columns.length
                              ? el("td", { class: "dim", colspan: columns.length - n }, cell)
                              : el("td", { class: columns[n].class, data: { label: columns[n].text } }, cell),
                    ),
                ),
            ),
        ),
    );
}

/**
 * Return a list of names with their values.
 * @param {([string, string] | null | undefined | false | "" | 0)[]} entries
 */
export function pairs(...entries) {
    return el(
        "dl",
        { class: "pairs" },
        entries.map((entry) => entry && el("div", {}, el("dt", { text: entry[0] }), el("dd", { text: entry[1] }))),
    );
}
