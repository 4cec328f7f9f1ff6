// Runs before anything is drawn, so that the page does not flash in another theme than the chosen one. See theme.js.
(() => {
    try {
        const chosen = localStorage.getItem("tidemark-theme");
        if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
    } catch {
        // Storage is switched off: the system's theme applies.
    }
})();
