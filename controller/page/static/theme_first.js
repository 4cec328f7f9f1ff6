// Before anything is drawn: a theme that was chosen must not flash the other one first. See theme.js.
(() => {
    try {
        const chosen = localStorage.getItem("tidemark-theme");
        if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
    } catch {
        // Storage is switched off: the system's theme it is.
    }
})();
