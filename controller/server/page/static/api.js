// Requests to the controller: JSON in and out, ETags, and errors in words.

import { Away, Rejected } from "./errors.js";
import { pressOver } from "./press.js";
import { token } from "./session.js";

export { Away, Rejected };

const LIMIT_MS = 20_000;
const MAX_CACHED = 60;
const PAGE_SIZE = 1_000;
/** @type {Map<string, {etag: string | null, text: string, value: unknown}>} */
const cached = new Map();
let serverAheadMs = 0;

/** Return the time by the controller's clock, in microseconds since the epoch, as far as its answers reveal it. */
export function nowUs() {
    return Math.round((Date.now() + serverAheadMs) * 1_000);
}

/**
 * Return the path of a stream.
 * @param {string} job
 * @param {string} stream
 */
export function streamPath(job, stream) {
    return `v1/jobs/${encodeURIComponent(job)}/streams/${encodeURIComponent(stream)}`;
}

/**
 * Return a path with a query; parameters that are null or undefined are left out, lists come item by item.
 * @param {string} path
 * @param {Record<string, string | number | number[] | null | undefined>} parameters
 */
export function query(path, parameters) {
    const found = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
        for (const one of [value ?? []].flat()) found.append(name, String(one));
    }
    const text = found.toString();
    return text ? `${path}?${text}` : path;
}

/**
 * GET `path`. An answer that has not changed comes from memory as the very same object.
 * @template T
 * @param {string} path
 * @param {AbortSignal | null} [signal]
 * @returns {Promise<T>}
 */
export async function get(path, signal = null) {
    const known = cached.get(path);
    const response = await request("GET", path, {
        headers: known?.etag ? { "If-None-Match": known.etag } : {},
        signal,
    });
    if (known && response.status === 304) return /** @type {T} */ (known.value);
    const text = await response.text();
    // The caller redraws what the answer changes.
    await pressOver();
    // Not every answer has an ETag: the same text is the same answer too.
    const value = known?.text === text ? known.value : parsed(text);
    cached.delete(path);
    cached.set(path, { etag: response.headers.get("ETag"), text, value });
    const [oldest] = cached.keys();
    if (cached.size > MAX_CACHED) cached.delete(oldest);
    return /** @type {T} */ (value);
}

/**
 * GET all pages of a list.
 * @template {{next_cursor: string | null}} T
 * @param {string} path
 * @param {Record<string, string | number>} parameters
 * @param {AbortSignal | null} [signal]
 * @returns {Promise<T[]>}
 */
export async function allPages(path, parameters, signal = null) {
    /** @type {T[]} */
    const pages = [];
    let cursor = null;
    do {
        /** @type {T} */
        const page = await get(query(path, { ...parameters, limit: PAGE_SIZE, cursor }), signal);
        pages.push(page);
        cursor = page.next_cursor;
    } while (cursor);
    return pages;
}

/**
 * GET `path` afresh, with its ETag.
 * @template T
 * @param {string} path
 * @returns {Promise<{value: T, etag: string | null}>}
 */
export async function getTagged(path) {
    const response = await request("GET", path, {});
    return { value: parsed(await response.text()), etag: response.headers.get("ETag") };
}

/**
 * Send `body`, if there is one, and return the answer.
 * @template T
 * @param {"POST" | "PUT" | "DELETE"} method
 * @param {string} path
 * @param {object | null} body
 * @param {Record<string, string>} [headers]
 * @returns {Promise<T>}
 */
export async function send(method, path, body, headers = {}) {
    const sent =
        body === null
            ? { headers }
            : { headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) };
    return parsed(await (await request(method, path, sent)).text());
}

/** Forget all cached answers: the next caller may have other rights. */
export function forget() {
    cached.clear();
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{headers?: Record<string, string>, body?: string | null, signal?: AbortSignal | null}} options
 */
async function request(method, path, { headers = {}, body = null, signal = null }) {
    const limit = AbortSignal.timeout(LIMIT_MS);
    const secret = await token();
    let response;
    try {
        response = await fetch(new URL(path, document.baseURI), {
            method,
            body,
            headers: {
                Accept: "application/json",
                ...headers,
                ...(secret ? { Authorization: `Bearer ${secret}` } : {}),
            },
            signal: signal ? AbortSignal.any([signal, limit]) : limit,
            cache: "no-store",
            credentials: "same-origin",
        });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new Away(limit.aborted ? "it did not answer in time" : "it cannot be reached");
    }
    const date = Date.parse(response.headers.get("Date") ?? "");
    // The header has whole seconds: a smaller difference says nothing about the clocks.
    if (!Number.isNaN(date)) serverAheadMs = Math.abs(date - Date.now()) > 2_000 ? date - Date.now() : 0;
    if (response.ok || response.status === 304) return response;
    throw await failure(response);
}

/** @param {string} text */
function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        throw new Away("the answer did not come from the controller");
    }
}

/** @param {Response} response */
async function failure(response) {
    const type = response.headers.get("Content-Type") ?? "";
    if (!type.includes("json")) return new Away(`a proxy in between answered ${response.status}`);
    return new Rejected(response.status, await response.json().catch(() => ({})));
}
