// Something that is done again and again: not while the tab is hidden, and at once when it is seen again.

/** Calls `turn(signal)` every `everyMs`; the next one waits for the one before. */
export class Poll {
    #turn;
    #everyMs;
    #timer = null;
    #running = null;
    #again = false;
    #ended = false;
    #seen = () => document.hidden || this.now();

    constructor(turn, everyMs) {
        this.#turn = turn;
        this.#everyMs = everyMs;
        document.addEventListener("visibilitychange", this.#seen);
        this.now();
    }

    /** Take a turn now; resolves when it is over. */
    async now() {
        if (this.#ended) return;
        if (this.#running) {
            // What asks now has changed something: the turn under way may have looked before.
            this.#again = true;
            await this.#running.done;
            return;
        }
        clearTimeout(this.#timer);
        const aborted = new AbortController();
        const running = {
            aborted,
            done: Promise.resolve()
                .then(() => this.#turn(aborted.signal))
                .catch(() => {}),
        };
        this.#running = running;
        await running.done;
        this.#running = null;
        if (this.#ended) return;
        if (this.#again) {
            this.#again = false;
            await this.now();
            return;
        }
        this.#timer = setTimeout(() => document.hidden || this.now(), this.#everyMs);
    }

    /** Take no more turns. */
    end() {
        this.#ended = true;
        clearTimeout(this.#timer);
        this.#running?.aborted.abort();
        document.removeEventListener("visibilitychange", this.#seen);
    }
}
