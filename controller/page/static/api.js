// The way to the controller: JSON in and out, ETags, and errors in words.

import { token } from "./session.js";

const LIMIT_MS = 20_000;
const held = new Map();
const MAX_HELD = 60;
let serverAheadMs = 0;

/** The controller refused, and said why. */
export class Refused extends Error {
    constructor(status, problem, headers) {
        super(problem.detail || problem.title || `the controller answered ${status}`);
        this.status = status;
        this.problem = problem;
        this.etag = headers.get("ETag");
    }
}

/** The controller did not answer, or what answered was not it. */
export class Away extends Error {}

/** Microseconds since the epoch, by the controller's clock as far as its answers told it. */
export function nowUs() {
    return Math.round((Date.now() + serverAheadMs) * 1_000);
}

/** The address of a stream. */
export function streamPath(job, stream) {
    return `v1/jobs/${encodeURIComponent(job)}/streams/${encodeURIComponent(stream)}`;
}

/** A path with a query; what is null is left out. */
export function query(path, parameters) {
    const told = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
        if (value !== null && value !== undefined) told.append(name, value);
    }
    const text = told.toString();
    return text ? `${path}?${text}` : path;
}

/** GET what is at `path`; what has not changed since comes from memory, the very same object. */
export async function get(path, signal = null) {
    const known = held.get(path);
    const response = await ask("GET", path, { headers: known?.etag ? { "If-None-Match": known.etag } : {}, signal });
    if (response.status === 304) return known.value;
    const text = await response.text();
    // Not every answer has a version: the same text is the same answer too.
    const value = known?.text === text ? known.value : parsed(text);
    held.delete(path);
    held.set(path, { etag: response.headers.get("ETag"), text, value });
    if (held.size > MAX_HELD) held.delete(held.keys().next().value);
    return value;
}

/** GET what is at `path` with its ETag, anew. */
export async function getTagged(path) {
    const response = await ask("GET", path, {});
    return { value: await read(response), etag: response.headers.get("ETag") };
}

/** Send `body` and return the answer. */
export async function send(method, path, body, headers = {}) {
    return read(
        await ask(method, path, {
            headers: { "Content-Type": "application/json", ...headers },
            body: JSON.stringify(body),
        }),
    );
}

/** Forget what was held: somebody else may be asking now. */
export function forget() {
    held.clear();
}

async function ask(method, path, { headers, body = null, signal = null }) {
    const limit = AbortSignal.timeout(LIMIT_MS);
    const secret = token();
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
    // The header has whole seconds: anything within one is no difference of clocks.
    if (!Number.isNaN(date)) serverAheadMs = Math.abs(date - Date.now()) > 2_000 ? date - Date.now() : 0;
    if (response.ok || response.status === 304) return response;
    throw await refusal(response);
}

async function read(response) {
    return parsed(await response.text());
}

function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        throw new Away("what answered is not the controller");
    }
}

async function refusal(response) {
    const type = response.headers.get("Content-Type") ?? "";
    if (!type.includes("json")) return new Away(`something in between answered ${response.status}`);
    const problem = await response.json().catch(() => ({}));
    return new Refused(response.status, problem, response.headers);
}
