// One stream: what it is told and why, what each bound would do, and what came.

import { Away, Refused, get, nowUs, query, streamPath } from "./api.js";
import { pauseButton } from "./actions.js";
import { BoundChart } from "./bound_chart.js";
import { CurveChart } from "./curve_chart.js";
import { badge, button, el, icon, put, say } from "./dom.js";
import { about, ago, budget, bytes, coarse, count, duration, fullMoment, latency, moment, shares, target } from "./format.js";
import { Heatmap } from "./heatmap.js";
import { LateChart } from "./late_chart.js";
import {
    EventsPanel,
    EvidencePanel,
    LivePanel,
    PredictionsPanel,
    ReasonsPanel,
    RolloutPanel,
    conditionList,
} from "./panels.js";
import { fleetHash, setOptions, streamHash } from "./router.js";
import { openSloForm } from "./slo_form.js";
import { budgetKind, latencyUnknown, plural } from "./words.js";

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
const PREDICTIONS = 8;
const ROLLOUTS = 6;
const EVENTS = 12;
/** Charts are asked for anew this often even when nothing was reported: the span moves on. */
const CHARTS_EVERY_MS = 30_000;
const TOLD_FOR_MS = 8_000;

/** The view of a stream. */
export class Stream {
    hasData = false;
    #root;
    #place;
    #path;
    #shell;
    #span;
    #untilUs;
    #status = null;
    #chartsOf = null;
    #chartsAt = -Infinity;
    #head = el("header", { class: "stream-head" });
    #tiles = el("dl", { class: "tiles" });
    #conditions = el("div");
    #done = el("p", { class: "done", role: "status" });
    #spanNote = el("p", { class: "span-note" });
    #spans;
    #parts;
    #failures = new Map();

    constructor(root, place, shell) {
        this.#root = root;
        this.#place = place;
        this.#path = streamPath(place.job, place.stream);
        this.#shell = { ...shell, done: (text) => this.#tellDone(text) };
        this.title = `${place.job} / ${place.stream} · Tidemark`;
        this.#span = place.options.span in SPANS ? place.options.span : DEFAULT_SPAN;
        const until = Number(place.options.until);
        this.#untilUs = Number.isSafeInteger(until) && until > 0 ? until : null;
        this.#parts = {
            curve: new CurveChart(this.#path),
            bound: new BoundChart(),
            late: new LateChart(),
            heatmap: new Heatmap(),
            rollouts: new RolloutPanel(this.#path, this.#shell),
            reasons: new ReasonsPanel(),
            live: new LivePanel(),
            predictions: new PredictionsPanel(),
            evidence: new EvidencePanel(),
            events: new EventsPanel(this.#path),
        };
        this.#spans = el(
            "div",
            { class: "segments", role: "group", "aria-label": "Time span of the charts" },
            Object.entries(SPANS).map(([name, [text]]) =>
                el("button", { type: "button", data: { span: name }, text, on: { click: () => this.#toSpan(name) } }),
            ),
        );
    }

    /** Ask the controller and show what it says. */
    async turn(signal) {
        const status = await get(this.#path, signal);
        if (!this.hasData) this.#build();
        this.#showStatus(status);
        const parts = [
            this.#part("rollouts", () => get(query(`${this.#path}/rollouts`, { limit: ROLLOUTS }), signal)),
            this.#part("events", () => get(query(`${this.#path}/events`, { limit: EVENTS }), signal)),
        ];
        const of = this.#chartKey(status);
        if (of !== this.#chartsOf || performance.now() - this.#chartsAt > CHARTS_EVERY_MS) {
            parts.push(...this.#charts(signal));
            await Promise.all(parts);
            this.#chartsOf = of;
            this.#chartsAt = performance.now();
        } else await Promise.all(parts);
    }

    end() {
        for (const part of Object.values(this.#parts)) part.end?.();
    }

    onKey() {
        return false;
    }

    #charts(signal) {
        const [fromUs, toUs] = this.#spanUs();
        const span = { from_us: fromUs, to_us: toUs };
        return [
            this.#part("curve", () => get(`${this.#path}/curve`, signal)),
            this.#part("predictions", () => get(query(`${this.#path}/predictions`, { limit: PREDICTIONS }), signal)),
            this.#part(
                ["bound", "late"],
                () => get(query(`${this.#path}/history`, { ...span, points: POINTS }), signal),
                (history) => this.#noteSpan(history),
            ),
            this.#part("heatmap", () =>
                Promise.all([
                    get(query(`${this.#path}/heatmap`, { ...span, slots: HEAT_SLOTS, limit: HEAT_ROWS }), signal),
                    allPartitions(this.#path, signal),
                ]),
            ),
        ];
    }

    // One part that cannot be had leaves the others alone; a controller that is away concerns them all.
    async #part(names, ask, also = () => {}) {
        const parts = [names].flat();
        let told;
        try {
            told = await ask();
        } catch (error) {
            if (error instanceof Away || !(error instanceof Refused) || error.status >= 500 || error.status === 401)
                throw error;
            for (const name of parts) this.#fail(name, error);
            return;
        }
        for (const name of parts) {
            this.#failures.get(name)?.remove();
            this.#failures.delete(name);
            this.#parts[name].show(...[told].flat());
        }
        also(told);
    }

    #fail(name, error) {
        this.#failures.get(name)?.remove();
        const told = el(
            "p",
            { class: "error part-error", role: "alert" },
            icon("bad"),
            ` This could not be read: ${error.message}.`,
        );
        this.#failures.set(name, told);
        this.#parts[name].node.querySelector(".card-head").after(told);
    }

    #chartKey(status) {
        return JSON.stringify([
            status.evidence.to_us,
            status.evidence.batches,
            status.recommended?.decided_us,
            status.published.generation,
            status.slo?.generation,
            this.#span,
            this.#untilUs,
        ]);
    }

    #spanUs() {
        // Whole slots of the span, so that the same question is asked again, and answered from what is known.
        const step = (SPANS[this.#span][1] * 1_000) / POINTS;
        const toUs = this.#untilUs ?? Math.ceil(nowUs() / step) * step;
        return [toUs - SPANS[this.#span][1] * 1_000, toUs];
    }

    #build() {
        this.hasData = true;
        const parts = this.#parts;
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
                    parts.curve.node,
                    el(
                        "div",
                        { class: "span-row" },
                        el("span", { class: "dim", text: "Charts below over" }),
                        this.#spans,
                        this.#spanNote,
                    ),
                    parts.bound.node,
                    parts.late.node,
                    parts.heatmap.node,
                ),
                el(
                    "div",
                    { class: "column" },
                    parts.rollouts.node,
                    parts.live.node,
                    parts.reasons.node,
                    parts.predictions.node,
                    parts.evidence.node,
                ),
                parts.events.node,
            ),
        );
        this.#tellSpan();
    }

    #showStatus(status) {
        if (this.#status === status) return;
        this.#status = status;
        this.#showHead(status);
        put(this.#tiles, tilesOf(status));
        put(this.#conditions, status.conditions.length ? conditionList(status.conditions) : null);
        for (const name of ["reasons", "live", "evidence"]) this.#parts[name].show(status);
    }

    #showHead(status) {
        // A button that has the focus must not vanish under the fingers.
        const label = document.activeElement?.closest(".stream-head") ? document.activeElement.textContent : null;
        const paused = status.conditions.some((one) => one.type === "Paused");
        put(
            this.#head,
            el(
                "div",
                { class: "stream-name" },
                el(
                    "p",
                    { class: "crumbs" },
                    el("a", { href: fleetHash(), text: "Fleet" }),
                    el("span", { text: " / " }),
                    el("span", { text: status.job }),
                ),
                el("h1", { text: status.stream }),
                el(
                    "p",
                    { class: "row stream-facts" },
                    el("span", { class: "badge badge-idle", title: MODES[status.mode], text: `mode ${status.mode}` }),
                    status.pin && badge("pause", `pinned: ${status.pin.to}`, status.pin.reason),
                    paused && badge("pause", "paused"),
                    el("span", {
                        class: "dim",
                        title: fullMoment(status.evidence.to_us),
                        text:
                            status.evidence.to_us === null
                                ? "no batch reported yet"
                                : `newest batch ${ago(status.evidence.to_us, nowUs())}`,
                    }),
                ),
            ),
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
        if (label !== null)
            [...this.#head.querySelectorAll("button, a")].find((one) => one.textContent === label)?.focus();
    }

    #tellDone(text) {
        say(this.#done, text);
        setTimeout(() => this.#done.textContent === text && say(this.#done, ""), TOLD_FOR_MS);
    }

    #toSpan(name) {
        this.#span = name;
        this.#tellSpan();
        this.#shell.refresh();
    }

    #tellSpan() {
        for (const one of this.#spans.children)
            one.setAttribute("aria-pressed", String(one.dataset.span === this.#span));
        const { job, stream } = this.#place;
        setOptions(
            streamHash(job, stream, {
                span: this.#span === DEFAULT_SPAN ? "" : this.#span,
                until: this.#untilUs ?? "",
            }),
        );
    }

    #noteSpan(history) {
        const newest = this.#status.evidence.to_us;
        const empty = history.slots.every((slot) => slot.rows === null);
        const slots = `a slot is ${coarse(history.slot_us / 1_000)}`;
        if (this.#untilUs !== null) {
            put(
                this.#spanNote,
                `until ${moment(this.#untilUs)}, ${slots}. `,
                button("Up to now", () => this.#until(null), { class: "button small" }),
            );
        } else if (empty && newest !== null) {
            put(
                this.#spanNote,
                `nothing was reported in this span; the newest batch is from ${moment(newest)}. `,
                button("Show that time", () => this.#until(newest + 60_000_000), { class: "button small" }),
            );
        } else put(this.#spanNote, slots);
    }

    #until(us) {
        this.#untilUs = us;
        this.#tellSpan();
        this.#shell.refresh();
    }
}

const MODES = {
    Off: "It is watched; the job keeps its own bound.",
    OnRestart: "The job takes the bound when it next starts.",
    Restart: "The job is started again between two batches for a new bound.",
    Live: "The job is steered while it runs.",
};
const PARTITIONS_PAGE = 1_000;

async function allPartitions(path, signal) {
    const page = await get(query(`${path}/partitions`, { limit: PARTITIONS_PAGE }), signal);
    return page;
}

function tilesOf(status) {
    const { slo, completeness, budget: left, recommended, published, applied, transition } = status;
    const kind = left ? budgetKind(left.remaining_ppm) : "idle";
    return [
        tile(
            "Budget left",
            [left ? budget(left.remaining_ppm) : "–", kind === "bad" && icon("bad")],
            left
                ? `${about(left.bad_max)} late of ${about(left.allowed)} allowed${left.provisional ? ", provisional" : ""}`
                : slo
                  ? "no report yet"
                  : "no SLO is set",
            `kind-${kind}`,
        ),
        tile(
            left ? `Complete over ${duration(left.window_ms)}` : "Complete over the window",
            left ? shares(left.min_ppm, left.max_ppm) : "–",
            slo
                ? `target ${target(slo.target_ppm)}${slo.objective === "timeslices" ? " of each window" : ""}`
                : "no target",
        ),
        tile(
            `Complete over ${duration(status.evidence.horizon_ms)}`,
            shares(completeness.min_ppm, completeness.max_ppm),
            [
                "the horizon of the evidence",
                completeness.provisional ? "provisional" : null,
                completeness.missing_batches ? `${plural(completeness.missing_batches, "batch", "batches")} missing` : null,
            ]
                .filter(Boolean)
                .join(", "),
        ),
        el(
            "div",
            { class: "tile tile-bounds" },
            el("dt", { text: "Bound" }),
            el(
                "dd",
                { class: "bounds" },
                bound("recommended", recommended?.bound_ms ?? null, "what the controller wants"),
                bound("published", published.bound_ms, "what the job is told"),
                bound("applied", applied?.bound_ms ?? status.in_use_bound_ms, "what the job runs with"),
                bound("effective", status.effective_bound_ms, "how far the watermark really trails"),
            ),
        ),
        tile(
            "Expected latency",
            transition ? latency(transition) : "–",
            transition
                ? `${latencyUnknown(transition.latency_unknown) ?? "mean, at the recommended bound"}${slo?.latency_cap_ms ? `; cap ${duration(slo.latency_cap_ms)}` : ""}`
                : "nothing is recommended",
        ),
        tile(
            "Expected state",
            transition ? about(transition.state_rows) : "–",
            transition
                ? `${transition.state_rows === null ? "not known" : "rows"}${transition.state_bytes ? `, ${bytes(transition.state_bytes)}` : ""}${slo?.state_cap_rows ? `; cap ${about(slo.state_cap_rows)}` : ""}`
                : "nothing is recommended",
        ),
    ];
}

function tile(name, value, more, kind = null) {
    return el(
        "div",
        { class: "tile" },
        el("dt", { text: name }),
        el("dd", { class: `tile-value ${kind ?? ""}` }, value),
        el("dd", { class: "tile-more", text: more }),
    );
}

function bound(name, ms, title) {
    return el(
        "span",
        { class: "bound", title },
        el("span", { class: "bound-ms", text: duration(ms) }),
        el("span", { class: "bound-name", text: name }),
    );
}
