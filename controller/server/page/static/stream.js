// The view of one stream: the verdict on it and the reasons for it, what each bound would do, and its history.

import { Away, get, query, Rejected, streamPath } from "./api.js";
import { BoundChart } from "./bound_chart.js";
import { BudgetChart } from "./budget_chart.js";
import { Caller } from "./caller.js";
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
import { SteeringPanel } from "./steering.js";
import { conditionList, streamName } from "./stream_head.js";
import { Tabs } from "./tabs.js";
import { TimeRange } from "./time_range.js";
import { boundNowOf, nextBoundOf } from "./verdict.js";
import { VerdictPanel } from "./verdict_panel.js";
import { WindowsChart } from "./windows_chart.js";

/** @import { History, LostAnswer, PolicyAnswer, Preview, RolloutPage, StreamStatus } from "api" */
/** @import { StreamPlace } from "./router.js" */
/** @typedef {{refresh: () => void, askForToken: () => void}} PageShell What the page offers a view */
/** @typedef {PageShell & {done: (text: string) => void, caller: Caller}} Shell What a stream's view offers its parts */

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
/** Conditions that the card about the bound on its way says in full. */
const ON_ITS_WAY = new Set(["Rolling", "RolloutHeld", "WaitsForStart"]);
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
    #range;
    #grid = el("div", { class: "stream-grid" });
    #tabs;
    /** Whether the address asks for the dialog about the rollout that waits. */
    #review;
    /** @type {StreamStatus | null} */
    #status = null;
    #chartsKey = "";
    #chartsAt = -Infinity;
    #head = el("header", { class: "stream-head" });
    #conditions = el("div", { class: "panel conditions-panel", data: { tab: "now" } });
    #done = el("p", { class: "done", role: "status" });
    #spanNote = el("p", { class: "hint span-note" });
    #verdict;
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
        this.#shell = { ...shell, done: (text) => this.#showDone(text), caller: new Caller(place.job) };
        this.title = `${place.job} / ${place.stream} · Tidemark`;
        this.#range = new TimeRange(place.options, () => this.#onRange());
        this.#tabs = new Tabs(this.#grid, place.options.tab, () => this.#onRange());
        this.#review = place.options.review === "1";
        /** @type {(fromUs: number, untilUs: number) => void} */
        const zoomed = (fromUs, untilUs) => this.#range.zoom(fromUs, untilUs);
        this.#parts = {
            curve: new CurveChart(this.#path, this.#shell),
            windows: new WindowsChart(this.#path),
            budget: new BudgetChart(),
            bound: new BoundChart(zoomed),
            late: new LateChart(zoomed),
            heatmap: new Heatmap((name, withoutMs) => {
                this.#tabs.show("now");
                this.#parts.curve.showPartition(name, withoutMs);
            }),
            lost: new LostPanel(),
            rollouts: new RolloutPanel(this.#path, this.#shell),
            steering: new SteeringPanel(this.#path, this.#shell),
            reasons: new ReasonsPanel(),
            live: new LivePanel(),
            predictions: new PredictionsPanel(),
            evidence: new EvidencePanel(),
            events: new EventsPanel(this.#path),
        };
        this.#verdict = new VerdictPanel(this.#path, this.#shell, () => {
            this.#tabs.show("now");
            this.#parts.curve.focus();
        });
    }

    /**
     * Fetch what has changed and show it.
     * @param {AbortSignal} signal
     */
    async refresh(signal) {
        /** @type {[StreamStatus, unknown]} */
        const [status] = await Promise.all([get(this.#path, signal), this.#shell.caller.refresh(signal)]);
        if (!this.hasData) {
            this.#range.fit(status.evidence.from_us);
            this.#build();
        }
        this.#showStatus(status);
        const { rollouts, events, steering, windows } = this.#parts;
        /** @type {(name: string, limit: number) => Promise<any>} */
        const page = (name, limit) => get(query(`${this.#path}/${name}`, { limit }), signal);
        /** @type {Promise<RolloutPage>} */
        const newest = page("rollouts", MAX_ROLLOUTS);
        const fetched = [
            this.#part([rollouts], async () => rollouts.show(await newest, status)),
            this.#part([events], async () => events.show(await page("events", MAX_EVENTS))),
            this.#part([windows], () => windows.refresh(status, signal)),
            this.#part([steering], async () => {
                /** @type {PolicyAnswer} */
                const policy = await get(`${this.#path}/policy`, signal);
                steering.show(policy, status);
            }),
        ];
        const key = this.#keyOfCharts(status);
        if (key !== this.#chartsKey || performance.now() - this.#chartsAt > CHARTS_EVERY_MS) {
            await Promise.all([...fetched, ...this.#fetchCharts(status, newest, signal)]);
            this.#chartsKey = key;
            this.#chartsAt = performance.now();
        } else await Promise.all(fetched);
        if (this.#review) {
            this.#review = false;
            this.#keepPlace();
            this.#verdict.review();
        }
    }

    end() {
        const { curve, windows, budget, bound, late, heatmap } = this.#parts;
        for (const part of [curve, windows, budget, bound, late, heatmap]) part.end();
    }

    onKey() {
        return false;
    }

    /**
     * @param {StreamStatus} status
     * @param {Promise<RolloutPage>} newest The newest rollouts.
     * @param {AbortSignal} signal
     */
    #fetchCharts(status, newest, signal) {
        const { curve, budget, bound, late, heatmap, predictions, lost } = this.#parts;
        const span = this.#range.spanUs(POINTS);
        /** @type {(name: string, parameters?: Record<string, string | number>) => Promise<any>} */
        const answer = (name, parameters = {}) => get(query(`${this.#path}/${name}`, parameters), signal);
        /** @type {(ms: number | null) => Promise<Preview | null>} */
        const preview = (ms) => (ms === null ? Promise.resolve(null) : answer("preview", { bound_ms: ms }));
        /** @type {Promise<History>} */
        const charted = answer("history", { ...span, points: POINTS });
        return [
            this.#part([], async () => {
                const bounds = [boundNowOf(status), nextBoundOf(status)];
                const [now, next] = await Promise.all(bounds.map(preview));
                this.#verdict.showOutcomes({ now, next });
            }),
            this.#part([curve], async () => curve.show(await answer("curve"), status.provisional_bound)),
            this.#part([budget], async () =>
                budget.show(await answer("budget", { points: POINTS }), (await newest).rollouts),
            ),
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
                const history = await charted;
                bound.show(history);
                late.show(history);
                this.#noteSpan(history, status.evidence.to_us);
            }),
            this.#part([heatmap], async () => {
                const [map, partitions] = await Promise.all([
                    answer("heatmap", { ...span, slots: HEAT_SLOTS, limit: HEAT_ROWS }),
                    answer("partitions", { limit: MAX_PARTITIONS }),
                ]);
                heatmap.show(map, partitions, await charted.catch(() => ({ ...map, rollouts: [] })));
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
            this.#range.options,
        ]);
    }

    #build() {
        this.hasData = true;
        const { curve, windows, budget, bound, late, heatmap, lost } = this.#parts;
        const { rollouts, steering, live, reasons, predictions, evidence, events } = this.#parts;
        const spanRow = el(
            "div",
            { class: "span-row" },
            el("span", { class: "dim", text: "Charts below over" }),
            this.#range.node,
            this.#spanNote,
        );
        /** @type {[string, {node: HTMLElement}[]][]} */
        const tabs = [
            ["now", [windows, curve]],
            ["steer", [rollouts, steering, live, reasons]],
            ["history", [budget, { node: spanRow }, bound, late, heatmap, lost]],
            ["log", [predictions, evidence, events]],
        ];
        for (const [name, parts] of tabs) for (const { node } of parts) node.dataset.tab = name;
        put(
            this.#grid,
            el("div", { class: "column" }, [
                curve.node,
                budget.node,
                spanRow,
                bound.node,
                late.node,
                heatmap.node,
                lost.node,
            ]),
            el(
                "div",
                { class: "column" },
                this.#conditions,
                [windows, rollouts, steering, live, reasons, predictions, evidence].map((part) => part.node),
            ),
            events.node,
        );
        put(this.#root, this.#head, this.#done, this.#verdict.node, this.#tabs.node, this.#grid);
        this.#keepPlace();
    }

    /** @param {StreamStatus} status */
    #showStatus(status) {
        if (this.#status === status) return;
        this.#status = status;
        put(
            this.#head,
            streamName(
                status,
                status.conditions.some((one) => one.type === "Paused"),
            ),
        );
        this.#verdict.show(status);
        const conditions = status.conditions.filter((one) => !ON_ITS_WAY.has(one.type));
        this.#conditions.hidden = conditions.length === 0;
        put(this.#conditions, conditions.length > 0 && conditionList(conditions));
        for (const part of [this.#parts.reasons, this.#parts.live, this.#parts.evidence]) part.show(status);
    }

    /** @param {string} text */
    #showDone(text) {
        say(this.#done, text);
        setTimeout(() => this.#done.textContent === text && say(this.#done, ""), DONE_SHOWN_MS);
    }

    /** Do what another span or another part of the view asks for. */
    #onRange() {
        this.#keepPlace();
        this.#shell.refresh();
    }

    #keepPlace() {
        const { job, stream } = this.#place;
        const review = this.#review ? "1" : "";
        replaceHash(streamHash(job, stream, { ...this.#range.options, tab: this.#tabs.option, review }));
    }

    /**
     * @param {History} history
     * @param {number | null} newestUs
     */
    #noteSpan(history, newestUs) {
        const slots = `one slot is ${coarse(history.slot_us / 1_000)}`;
        if (this.#range.untilUs !== null) {
            put(
                this.#spanNote,
                `${moment(history.from_us)} to ${moment(history.to_us)}, ${slots}. `,
                button("Up to now", () => this.#range.showUntil(null), { class: "button small" }),
            );
        } else if (newestUs !== null && history.slots.every((slot) => slot.rows === null)) {
            put(
                this.#spanNote,
                `nothing was reported in this span; the newest batch is from ${moment(newestUs)}. `,
                button("Show that time", () => this.#range.showUntil(newestUs + 60_000_000), { class: "button small" }),
            );
        } else {
            const since = this.#range.fitted ? "since the first batch, " : "";
            put(this.#spanNote, `${since}${slots}; drag over a chart to see a part of it`);
        }
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
