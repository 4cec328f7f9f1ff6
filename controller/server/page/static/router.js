// Addresses: the part after the # names the view and never reaches the controller.

/** @typedef {Record<string, string>} Options */
/** @typedef {{view: "fleet", options: Options}} FleetPlace */
/** @typedef {{view: "stream", job: string, stream: string, options: Options}} StreamPlace */

/** Return the view that the page's address names. */
export function here() {
    return parsePlace(location.hash);
}

/**
 * Return the view that the part of an address after the # names; the fleet when it names none.
 * @param {string} hash
 * @returns {FleetPlace | StreamPlace}
 */
export function parsePlace(hash) {
    const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
    const [view, job, stream, ...more] = path.split("/").filter(Boolean);
    const options = Object.fromEntries(new URLSearchParams(query));
    if (view === "streams" && stream && !more.length) {
        try {
            return { view: "stream", job: decodeURIComponent(job), stream: decodeURIComponent(stream), options };
        } catch {
            // The page does not write such addresses.
        }
    }
    return { view: "fleet", options };
}

/**
 * Return the address of the fleet.
 * @param {Options} [options]
 */
export function fleetHash(options = {}) {
    return `#/${tail(options)}`;
}

/**
 * Return the address of a stream.
 * @param {string} job
 * @param {string} stream
 * @param {Options} [options]
 */
export function streamHash(job, stream, options = {}) {
    return `#/streams/${encodeURIComponent(job)}/${encodeURIComponent(stream)}${tail(options)}`;
}

/**
 * Replace the page's address without a new entry in the history.
 * @param {string} hash
 */
export function replaceHash(hash) {
    history.replaceState(null, "", hash);
}

/** @param {Options} options */
function tail(options) {
    const text = new URLSearchParams(Object.entries(options).filter(([, value]) => value !== "")).toString();
    return text ? `?${text}` : "";
}
