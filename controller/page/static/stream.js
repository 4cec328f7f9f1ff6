// The view of one stream: its state and the reasons for it, what each bound would do, and its history.

import { pauseButton } from "./actions.js";
import { Away, get, nowUs, query, Rejected, streamPath } from "./api.js";
import { BoundChart } from "./bound_chart.js";
import { CurveChart } from "./curve_chart.js";
import { button, el, icon, put, say } from "./dom.js";
import { EventsPanel } from "./events_panel.js";
import { coarse, moment } from "./format.js";
import { Heatmap } from "./heatmap.js";
import { LateChart } from "./late_chart.js";
import { LostPanel } from "./lost_panel.js";
import { EvidencePanel, LivePanel, PredictionsPanel, ReasonsPanel } from "./panels.js";
import { RolloutPanel } from "./rollout_panel.js";
import { replaceHash, streamHash } from "./router.js";
import { openSloForm } from "./slo_form.js";
import { conditionList, streamName, tilesOf } from "./stream_head.js";

/** @import { History, LostAnswer, StreamStatus } from "api" */
/** @import { StreamPlace } from "./router.js" */
/** @typedef {{refresh: () => void, askForToken: () => void}} PageShell What the page offers a view */
/** @typedef {PageShell & {done: (text: string) => void}} Shell What a stream's view offers its parts */

/** @type {Record<string, [string, number]>} Name on the button, and milliseconds. */
const SPANS = {
    "1h": ["1 h", 3_600_000],
    "6h": ["6 h", 21_600_000],
    "1d": ["1 d", 86_400_000],
    "7d": ["7 d", 604_800_000],
    "30d": ["30 d", 2_592_000_000],
};
const DEFAULT_SPAN = "6h";
const POINTS = 240;
const HEAT_SLOTS = 168;
const HEAT_ROWS = 64;
const MAX_PREDICTIONS = 8;
const MAX_ROLLOUTS = 6;
const MAX_EVENTS = 12;
const MAX_PARTITIONS = 1_000;
const MAX_VALUES = 10;
/** The charts are fetched again this often even when nothing was reported, because their span moves on. */
const CHARTS_EVERY_MS = 30_000;
const DONE_SHOWN_MS = 8_000;
const UNAUTHENTICATED = 401;
const SERVER_ERROR = 500;

/** The view of a stream. */
export class Stream {
    hasData = false;
    #root;
    #place;
    #path;
    /** @type {Shell} */
    #shell;
    #span;
    /** @type {number | null} End of the charts' span; null for now. */
    #untilUs;
    /** @type {StreamStatus | null} */
    #status = null;
    #chartsKey = "";
    #chartsAt = -Infinity;
    #head = el("header", { class: "stream-head" });
    #tiles = el("dl", { class: "tiles" });
    #conditions = el("div");
    #done = el("p", { class: "done", role: "status" });
    #spanNote = el("p", { class: "span-note" });
    #spans = Object.entries(SPANS).map(([name, [text]]) =>
        el("button", { type: "button", data: { span: name }, text, on: { click: () => this.#showSpan(name) } }),
    );
    #parts;

    /**
     * @param {Element} root
     * @param {StreamPlace} place
     * @param {PageShell} shell
     */
    constructor(root, place, shell) {
        this.#root = root;
        this.#place = place;
        this.#path = streamPath(place.job, place.stream);
        this.#shell = { ...shell, done: (text) => this.#showDone(text) };
        this.title = `${place.job} / ${place.stream} · Tidemark`;
        this.#span = place.options.span in SPANS ? place.options.span : DEFAULT_SPAN;
        const until = Number(place.options.until);
        this.#untilUs = Number.isSafeInteger(until) && until > 0 ? until : null;
        this.#parts = {
            curve: new CurveChart(this.#path),
            bound: new BoundChart(),
            late: new LateChart(),
            heatmap: new Heatmap(),
            lost: new LostPanel(),
            rollouts: new RolloutPanel(this.#path, this.#shell),
            reasons: new ReasonsPanel(),
            live: new LivePanel(),
            predictions: new PredictionsPanel(),
            evidence: new EvidencePanel(),
            events: new EventsPanel(this.#path),
        };
    }

    /**
     * Fetch what has changed and show it.
     * @param {AbortSignal} signal
     */
    async refresh(signal) {
        /** @type {StreamStatus} */
        const status = await get(this.#path, signal);
        if (!this.hasData) this.#build();
        this.#showStatus(status);
        const { rollouts, events } = this.#parts;
        /** @type {(name: string, limit: number) => Promise<any>} */
        const page = (name, limit) => get(query(`${this.#path}/${name}`, { limit }), signal);
        const fetched = [
            this.#part([rollouts], async () => rollouts.show(await page("rollouts", MAX_ROLLOUTS))),
            this.#part([events], async () => events.show(await page("events", MAX_EVENTS))),
        ];
        const key = this.#keyOfCharts(status);
        if (key !== this.#chartsKey || performance.now() - this.#chartsAt > CHARTS_EVERY_MS) {
            await Promise.all([...fetched, ...this.#fetchCharts(status, signal)]);
            this.#chartsKey = key;
            this.#chartsAt = performance.now();
        } else await Promise.all(fetched);
    }

    end() {
        const { curve, bound, late, heatmap } = this.#parts;
        for (const part of [curve, bound, late, heatmap]) part.end();
    }

    onKey() {
        return false;
    }

    /**
     * @param {StreamStatus} status
     * @param {AbortSignal} signal
     */
    #fetchCharts(status, signal) {
        const { curve, bound, late, heatmap, predictions, lost } = this.#parts;
        const span = this.#spanUs();
        /** @type {(name: string, parameters?: Record<string, string | number>) => Promise<any>} */
        const answer = (name, parameters = {}) => get(query(`${this.#path}/${name}`, parameters), signal);
        return [
            this.#part([curve], async () => curve.show(await answer("curve"))),
            this.#part([predictions], async () =>
                predictions.show(await answer("predictions", { limit: MAX_PREDICTIONS })),
            ),
            this.#part([lost], async () => {
                /** @type {LostAnswer} */
                const first = await answer("lost", { limit: MAX_VALUES });
                const others = first.dimensions.filter((dimension) => dimension !== first.dimension);
                const more = others.map((dimension) => answer("lost", { dimension, limit: MAX_VALUES }));
                lost.show([first, ...(await Promise.all(more))]);
            }),
            this.#part([bound, late], async () => {
                /** @type {History} */
                const history = await answer("history", { ...span, points: POINTS });
                bound.show(history);
                late.show(history);
                this.#noteSpan(history, status.evidence.to_us);
            }),
            this.#part([heatmap], async () => {
                const [map, partitions] = await Promise.all([
                    answer("heatmap", { ...span, slots: HEAT_SLOTS, limit: HEAT_ROWS }),
                    answer("partitions", { limit: MAX_PARTITIONS }),
                ]);
                heatmap.show(map, partitions);
            }),
        ];
    }

    /**
     * Fetch and show parts of the view. One that is rejected leaves the others alone; an outage concerns them all.
     * @param {{node: Element}[]} parts
     * @param {() => Promise<void>} fetchAndShow
     */
    async #part(parts, fetchAndShow) {
        try {
            await fetchAndShow();
            for (const { node } of parts) showFailure(node, null);
        } catch (error) {
            const outage =
                error instanceof Away ||
                !(error instanceof Rejected) ||
                error.status >= SERVER_ERROR ||
                error.status === UNAUTHENTICATED;
            if (outage) throw error;
            for (const { node } of parts) showFailure(node, error.message);
        }
    }

    /** @param {StreamStatus} status */
    #keyOfCharts({ evidence, recommended, published, slo }) {
        return JSON.stringify([
            evidence.to_us,
            evidence.batches,
            recommended?.decided_us,
            published.generation,
            slo?.generation,
            this.#span,
            this.#untilUs,
        ]);
    }

    #spanUs() {
        const spanUs = SPANS[this.#span][1] * 1_000;
        // Whole slots, so that the same request comes again and its answer is found in the cache.
        const slotUs = spanUs / POINTS;
        const toUs = this.#untilUs ?? Math.ceil(nowUs() / slotUs) * slotUs;
        return { from_us: toUs - spanUs, to_us: toUs };
    }

    #build() {
        this.hasData = true;
        const { curve, bound, late, heatmap, lost, rollouts, live, reasons, predictions, evidence, events } =
            this.#parts;
        put(
            this.#root,
            this.#head,
            this.#done,
            this.#conditions,
            this.#tiles,
            el(
                "div",
                { class: "stream-grid" },
                el(
                    "div",
                    { class: "column" },
                    curve.node,
                    el(
                        "div",
                        { class: "span-row" },
                        el("span", { class: "dim", text: "Charts below over" }),
                        el(
                            "div",
                            { class: "segments", role: "group", "aria-label": "Time span of the charts" },
                            this.#spans,
                        ),
                        this.#spanNote,
                    ),
                    bound.node,
                    late.node,
                    heatmap.node,
                    lost.node,
                ),
                el(
                    "div",
                    { class: "column" },
                    [rollouts, live, reasons, predictions, evidence].map((part) => part.node),
                ),
                events.node,
            ),
        );
        this.#markSpan();
    }

    /** @param {StreamStatus} status */
    #showStatus(status) {
        if (this.#status === status) return;
        this.#status = status;
        this.#showHead(status);
        put(this.#tiles, tilesOf(status));
        put(this.#conditions, status.conditions.length > 0 && conditionList(status.conditions));
        for (const part of [this.#parts.reasons, this.#parts.live, this.#parts.evidence]) part.show(status);
    }

    /** @param {StreamStatus} status */
    #showHead(status) {
        // A button that is replaced hands its focus on.
        const focused = document.activeElement?.closest(".stream-head") ? document.activeElement.textContent : null;
        const paused = status.conditions.some((one) => one.type === "Paused");
        put(
            this.#head,
            streamName(status, paused),
            el(
                "div",
                { class: "row actions" },
                pauseButton(this.#path, paused, this.#shell),
                button(
                    status.slo ? "Change the SLO …" : "Set an SLO …",
                    () => openSloForm(this.#path, status.slo !== null, this.#shell),
                    { class: "button primary" },
                ),
            ),
        );
        if (focused === null) return;
        for (const one of this.#head.querySelectorAll(/** @type {"button"} */ ("button, a"))) {
            if (one.textContent === focused) one.focus();
        }
    }

    /** @param {string} text */
    #showDone(text) {
        say(this.#done, text);
        setTimeout(() => this.#done.textContent === text && say(this.#done, ""), DONE_SHOWN_MS);
    }

    /** @param {string} name */
    #showSpan(name) {
        this.#span = name;
        this.#markSpan();
        this.#shell.refresh();
    }

    /** @param {number | null} us */
    #showUntil(us) {
        this.#untilUs = us;
        this.#markSpan();
        this.#shell.refresh();
    }

    #markSpan() {
        for (const one of this.#spans) one.setAttribute("aria-pressed", String(one.dataset.span === this.#span));
        const { job, stream } = this.#place;
        replaceHash(
            streamHash(job, stream, {
                span: this.#span === DEFAULT_SPAN ? "" : this.#span,
                until: String(this.#untilUs ?? ""),
            }),
        );
    }

    /**
     * @param {History} history
     * @param {number | null} newestUs
     */
    #noteSpan(history, newestUs) {
        const slots = `one slot is ${coarse(history.slot_us / 1_000)}`;
        if (this.#untilUs !== null) {
            put(
                this.#spanNote,
                `until ${moment(this.#untilUs)}, ${slots}. `,
                button("Up to now", () => this.#showUntil(null), { class: "button small" }),
            );
        } else if (newestUs !== null && history.slots.every((slot) => slot.rows === null)) {
            put(
                this.#spanNote,
                `nothing was reported in this span; the newest batch is from ${moment(newestUs)}. `,
                button("Show that time", () => this.#showUntil(newestUs + 60_000_000), { class: "button small" }),
            );
        } else put(this.#spanNote, slots);
    }
}

/**
 * Say on a card why its figures could not be read; null removes the message.
 * @param {Element} card
 * @param {string | null} message
 */
function showFailure(card, message) {
    card.querySelector(".part-error")?.remove();
    if (message === null) return;
    const text = ` This could not be read: ${message}.`;
    card.querySelector(".card-head")?.after(
        el("p", { class: "error part-error", role: "alert" }, icon("critical"), text),
    );
}
