// Light, dark, or as the system has it.

/** @typedef {"auto" | "light" | "dark"} Theme */

const KEY = "tidemark-theme";
/** @type {Record<Theme, Theme>} */
const NEXT = { auto: "light", light: "dark", dark: "auto" };
/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {Map<string, string>} */
const colours = new Map();
const probe = document.createElement("span");

/** Return the theme that was chosen. */
export function chosenTheme() {
    return /** @type {Theme} */ (document.documentElement.dataset.theme ?? "auto");
}

/** Choose the next theme and return it. */
export function nextTheme() {
    const theme = NEXT[chosenTheme()];
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
        if (theme === "auto") localStorage.removeItem(KEY);
        else localStorage.setItem(KEY, theme);
    } catch {
        // Storage is switched off: the choice lasts until the page is left.
    }
    changed();
    return theme;
}

/**
 * Call `then` whenever the colours change; return a function that ends this.
 * @param {() => void} then
 */
export function onTheme(then) {
    listeners.add(then);
    return () => listeners.delete(then);
}

/**
 * Return a colour of the style sheet as the theme has it now, for drawing on a canvas.
 * @param {string} name
 */
export function colour(name) {
    let found = colours.get(name);
    if (found === undefined) {
        probe.style.color = `var(--${name})`;
        document.documentElement.append(probe);
        found = getComputedStyle(probe).color;
        colours.set(name, found);
        probe.remove();
    }
    return found;
}

function changed() {
    colours.clear();
    for (const then of listeners) then();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
