// Light, dark, or as the system has it.

const KEY = "tidemark-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const dark = matchMedia("(prefers-color-scheme: dark)");
const heard = new Set();
const colours = new Map();
const probe = document.createElement("span");

/** The theme that was chosen: auto, light or dark. */
export function chosenTheme() {
    return document.documentElement.dataset.theme ?? "auto";
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
        // It counts until the page is left.
    }
    tell();
    return theme;
}

/** Call `then` whenever the colours change; returns what ends that. */
export function onTheme(then) {
    heard.add(then);
    return () => heard.delete(then);
}

/** The value of a colour of the style sheet, as the theme has it now, for what is drawn on a canvas. */
export function colour(name) {
    if (!colours.has(name)) {
        probe.style.color = `var(--${name})`;
        document.documentElement.append(probe);
        colours.set(name, getComputedStyle(probe).color);
        probe.remove();
    }
    return colours.get(name);
}

function tell() {
    colours.clear();
    for (const then of heard) then();
}

dark.addEventListener("change", tell);
