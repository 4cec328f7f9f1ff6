// Elements. Whatever is put into them is text: nothing here, or anywhere in the page, makes markup of data.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an element.
 * Attributes: `class`, `text`, `on` (listeners by event), `data` (data-*), `style` (properties), everything else as it is;
 * null and false leave one out. Children: nodes, texts, nested lists; null and false are left out.
 */
export function el(tag, attributes = {}, ...children) {
    return filled(document.createElement(tag), attributes, children);
}

/** Return an element of an SVG picture. */
export function svg(tag, attributes = {}, ...children) {
    return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue;
        if (name === "class") node.setAttribute("class", value);
        else if (name === "text") node.textContent = value;
        else if (name === "on") for (const [event, then] of Object.entries(value)) node.addEventListener(event, then);
        else if (name === "data") Object.assign(node.dataset, value);
        else if (name === "style") for (const [key, set] of Object.entries(value)) node.style.setProperty(key, set);
        else if (name === "value") node.value = value;
        else node.setAttribute(name, value === true ? "" : value);
    }
    append(node, children);
    return node;
}

function append(node, children) {
    for (const child of children.flat(Infinity)) {
        if (child === null || child === undefined || child === false) continue;
        node.append(child);
    }
}

/** Replace what is in `node`. */
export function put(node, ...children) {
    node.replaceChildren();
    append(node, children);
    return node;
}

/** Set the text of `node`, and touch nothing when it is the same. */
export function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

const SHAPES = {
    bad: ["M8 1.500 15 14H1z", "M8 6v4M8 11.500v.8"],
    warn: ["M8 1 15 8 8 15 1 8z", "M8 5v3.500M8 10.300v.8"],
    ok: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1z", "M4.800 8.200 7 10.500l4.300-4.700"],
    info: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1z", "M8 7v4.500M8 4.300v.8"],
    idle: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1z", "M5 8h6"],
    open: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1z", "M8 4.500V8l2.500 1.800"],
    theme: ["M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1z", "M8 1v14M8 4.500h5M8 8h7M8 11.500h5"],
    pause: ["M2 2h12v12H2z", "M6 5v6M10 5v6"],
};

/** Return the sign of a severity; each has a shape of its own, so that none is told by colour alone. */
export function icon(kind) {
    const [outline, mark] = SHAPES[kind];
    return svg(
        "svg",
        { class: `icon icon-${kind}`, viewBox: "0 0 16 16", width: "14", height: "14", "aria-hidden": "true" },
        svg("path", { class: "icon-shape", d: outline }),
        svg("path", { class: "icon-mark", d: mark }),
    );
}

/** Return a small label with a sign: `kind` is its severity. */
export function badge(kind, text, title = null) {
    return el("span", { class: `badge badge-${kind}`, title }, icon(kind), el("span", { text }));
}

/** Return a button. */
export function button(text, then, attributes = {}) {
    return el("button", { type: "button", class: "button", ...attributes, on: { click: then } }, text);
}
