// Addresses: what is after the # says which view is shown, and never reaches the controller.

/** Return the view that the address names: {view, job, stream, options}. */
export function here() {
    const [path, options = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const parts = path.split("/").filter(Boolean);
    const told = Object.fromEntries(new URLSearchParams(options));
    if (parts[0] === "streams" && parts.length === 3) {
        try {
            return {
                view: "stream",
                job: decodeURIComponent(parts[1]),
                stream: decodeURIComponent(parts[2]),
                options: told,
            };
        } catch {
            // Not something that this page wrote.
        }
    }
    return { view: "fleet", options: told };
}

/** The address of the fleet. */
export function fleetHash(options = {}) {
    return `#/${tail(options)}`;
}

/** The address of a stream. */
export function streamHash(job, stream, options = {}) {
    return `#/streams/${encodeURIComponent(job)}/${encodeURIComponent(stream)}${tail(options)}`;
}

/** Change the options of this address, without a step in the history. */
export function setOptions(hash) {
    history.replaceState(null, "", hash);
}

function tail(options) {
    const told = new URLSearchParams(Object.entries(options).filter(([, value]) => value !== null && value !== ""));
    const text = told.toString();
    return text ? `?${text}` : "";
}
