// Work that repeats: paused while the tab is hidden, and done at once when it is shown again.

/** Calls `work(signal)` every `everyMs`, one call after the other. */
export class Poll {
    #work;
    #everyMs;
    #timer = 0;
    /** @type {{abort: AbortController, done: Promise<unknown>} | null} */
    #running = null;
    #again = false;
    #ended = false;
    #onVisible = () => document.hidden || this.now();

    /**
     * @param {(signal: AbortSignal) => Promise<void>} work
     * @param {number} everyMs
     */
    constructor(work, everyMs) {
        this.#work = work;
        this.#everyMs = everyMs;
        document.addEventListener("visibilitychange", this.#onVisible);
        this.now();
    }

    /**
     * Work now; resolves when that is done.
     * @returns {Promise<void>}
     */
    async now() {
        if (this.#ended) return;
        if (this.#running) {
            // The caller has changed something that the work under way may have read before.
            this.#again = true;
            await this.#running.done;
            return;
        }
        clearTimeout(this.#timer);
        const abort = new AbortController();
        const done = Promise.resolve()
            .then(() => this.#work(abort.signal))
            .catch(() => {});
        this.#running = { abort, done };
        await done;
        this.#running = null;
        if (this.#ended) return;
        if (this.#again) {
            this.#again = false;
            await this.now();
            return;
        }
        this.#timer = setTimeout(() => document.hidden || this.now(), this.#everyMs);
    }

    /** Stop, and abort the work under way. */
    end() {
        this.#ended = true;
        clearTimeout(this.#timer);
        this.#running?.abort.abort();
        document.removeEventListener("visibilitychange", this.#onVisible);
    }
}
