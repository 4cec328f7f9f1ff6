// The form that sets an SLO: tried first, so that what follows is read before it is done; a conflict is shown side by side.

import { Refused, getTagged, query, send } from "./api.js";
import { Dialog, reasonField } from "./dialog.js";
import { button, el, icon, put } from "./dom.js";
import { duration, exactDuration, moment, parseDuration, target } from "./format.js";
import { sentence } from "./words.js";

const MAX_REASON = 500;
const NOT_FOUND = 404;
const STALE = new Set([412, 428]);
const DEFAULTS = {
    target_ppm: 995_000,
    latency_cap_ms: null,
    on_conflict: null,
    confidence_ppm: 950_000,
    horizon_ms: 86_400_000,
    objective: "occurrences",
    good_windows_ppm: 990_000,
    window_ms: 2_592_000_000,
    state_cap_rows: null,
    worst_window_ppm: null,
};

const percent = (hint) => ({
    show: (ppm) => (ppm === null ? "" : target(ppm).replace(" %", "")),
    parse: (text) => (/^\d{1,3}(\.\d{1,4})?$/.test(text) ? Math.round(Number(text) * 10_000) : undefined),
    wrong: hint,
    unit: "%",
});
const time = {
    show: (ms) => (ms === null ? "" : exactDuration(ms)),
    parse: (text) => parseDuration(text) ?? undefined,
    wrong: "write it like 30 s, 5 min, 12 h or 30 d",
};
const whole = {
    show: (number) => (number === null ? "" : String(number)),
    parse: (text) => (/^\d+$/.test(text) ? Number(text) : undefined),
    wrong: "write a whole number",
};

const FIELDS = [
    {
        name: "target_ppm",
        label: "Target",
        hint: "Share of the rows that are to be counted.",
        ...percent("write a share like 99.5, between 0 and 100"),
    },
    {
        name: "latency_cap_ms",
        label: "Latency cap",
        hint: "Greatest mean latency of a window; empty for none.",
        blank: true,
        ...time,
    },
    {
        name: "on_conflict",
        label: "When both cannot hold",
        options: [
            ["", "say so, and change nothing"],
            ["completeness", "completeness yields"],
            ["latency", "latency yields"],
            ["state", "state yields"],
        ],
    },
    {
        name: "objective",
        label: "The target is about",
        options: [
            ["occurrences", "all rows together"],
            ["timeslices", "each window"],
        ],
        rare: true,
    },
    {
        name: "good_windows_ppm",
        label: "Windows that must reach it",
        hint: "Counts only when the target is about each window.",
        rare: true,
        ...percent("write a share like 99"),
    },
    {
        name: "worst_window_ppm",
        label: "Floor of every single window",
        hint: "Empty for none.",
        blank: true,
        rare: true,
        ...percent("write a share like 90"),
    },
    {
        name: "state_cap_rows",
        label: "Most rows of state",
        hint: "Empty for no cap.",
        blank: true,
        rare: true,
        ...whole,
    },
    { name: "window_ms", label: "Window of the budget", rare: true, ...time },
    { name: "horizon_ms", label: "Evidence counts back", rare: true, ...time },
    { name: "confidence_ppm", label: "Confidence", rare: true, ...percent("write a share like 95") },
];

/** Open the form for the stream at `path`, which has an SLO or not, as far as the page knows. */
export async function openSloForm(path, isSet, shell) {
    const dialog = new Dialog("Set the SLO", { wide: true, shell });
    const form = new SloForm(path, dialog, shell);
    dialog.open();
    await form.load(isSet);
}

class SloForm {
    #path;
    #dialog;
    #shell;
    #etag = null;
    #base = null;
    #controls = new Map();
    #reason = reasonField({ most: MAX_REASON, needed: true });
    #follows = el("div", { class: "follows", role: "status" });

    constructor(path, dialog, shell) {
        this.#path = path;
        this.#dialog = dialog;
        this.#shell = shell;
        dialog.form.addEventListener("submit", () => this.#submit());
        dialog.form.addEventListener("input", (event) => event.target.closest(".slo-fields") && this.#changed());
        put(dialog.body, el("p", { class: "dim", text: "Reading the SLO …" }));
        put(
            dialog.buttons,
            button("Cancel", () => dialog.close()),
        );
    }

    async load(isSet) {
        // What is not there is not asked for; if somebody sets it meanwhile, the write meets a conflict.
        const found = isSet ? await this.#dialog.attempt(() => this.#read()) : { value: null, etag: null };
        if (found === undefined) return;
        this.#build(found);
    }

    async #read() {
        try {
            return await getTagged(`${this.#path}/slo`);
        } catch (error) {
            if (error instanceof Refused && error.status === NOT_FOUND && /slo-not-set$/.test(error.problem.type ?? ""))
                return { value: null, etag: null };
            throw error;
        }
    }

    #build({ value, etag }) {
        this.#etag = etag;
        this.#base = value;
        const shown = value ?? DEFAULTS;
        const usual = FIELDS.filter((field) => !field.rare);
        const rare = FIELDS.filter((field) => field.rare);
        put(
            this.#dialog.body,
            el(
                "p",
                { class: "hint" },
                value
                    ? `Generation ${value.generation}, set ${moment(value.updated_us)}.`
                    : "None is set yet: until there is one, nothing is recommended.",
            ),
            el(
                "div",
                { class: "slo-fields" },
                usual.map((field) => this.#field(field, shown)),
            ),
            el(
                "details",
                { class: "slo-more", open: rare.some((field) => value && shown[field.name] !== DEFAULTS[field.name]) },
                el("summary", { text: "Objective, caps, window, confidence" }),
                el(
                    "div",
                    { class: "slo-fields" },
                    rare.map((field) => this.#field(field, shown)),
                ),
            ),
            this.#reason.node,
            this.#follows,
        );
        this.#changed();
        this.#controls.get("target_ppm").control.focus();
    }

    #field(field, shown) {
        const id = `slo-${field.name}`;
        const told = el("span", { class: "error", id: `${id}-told` });
        const control = field.options
            ? el(
                  "select",
                  { id },
                  field.options.map(([value, text]) =>
                      el("option", { value, text, selected: (shown[field.name] ?? "") === value }),
                  ),
              )
            : el("input", {
                  id,
                  type: "text",
                  value: field.show(shown[field.name]),
                  autocomplete: "off",
                  spellcheck: "false",
                  "aria-describedby": `${id}-told`,
              });
        this.#controls.set(field.name, { field, control, told });
        return el(
            "div",
            { class: "field" },
            el("label", { for: id, text: field.unit ? `${field.label} (${field.unit})` : field.label }),
            control,
            field.hint && el("span", { class: "hint", text: field.hint }),
            told,
        );
    }

    #values() {
        const values = {};
        let wrong = null;
        for (const { field, control, told } of this.#controls.values()) {
            const text = control.value.trim();
            const value = field.options ? text || null : text === "" && field.blank ? null : field.parse(text);
            const fits = value !== undefined;
            control.setAttribute("aria-invalid", String(!fits));
            told.textContent = fits ? "" : field.wrong;
            if (!fits) wrong ??= control;
            values[field.name] = value;
        }
        if (!wrong) return values;
        wrong.closest("details")?.setAttribute("open", "");
        wrong.focus();
        return null;
    }

    #changed() {
        put(this.#follows);
        put(
            this.#dialog.buttons,
            button("Cancel", () => this.#dialog.close()),
            el("button", { type: "submit", class: "button primary", text: "See what follows" }),
        );
        this.#tried = null;
    }

    #tried = null;

    async #submit() {
        const values = this.#values();
        if (values === null) return;
        if (this.#tried === null) await this.#try(values);
        else await this.#set(values);
    }

    #put(values, options) {
        return send(
            "PUT",
            query(`${this.#path}/slo`, options),
            values,
            this.#etag === null ? {} : { "If-Match": this.#etag },
        );
    }

    async #try(values) {
        const answer = await this.#dialog.attempt(() => this.#put(values, { dryRun: "All" }), {
            refused: (error) => this.#conflict(error, values),
        });
        if (answer === undefined) return;
        this.#tried = answer;
        put(this.#follows, followsOf(answer));
        put(
            this.#dialog.buttons,
            button("Back", () => this.#changed()),
            el("button", { type: "submit", class: "button primary", text: "Set the SLO" }),
        );
        this.#dialog.buttons.querySelector(".primary").focus();
    }

    async #set(values) {
        const reason = this.#reason.read();
        if (reason === null) return;
        const answer = await this.#dialog.attempt(() => this.#put(values, { reason }), {
            refused: (error) => this.#conflict(error, values),
        });
        if (answer === undefined) return;
        this.#dialog.close();
        this.#shell.done(`The SLO is set: ${target(answer.target_ppm)}, generation ${answer.generation}.`);
        this.#shell.refresh();
    }

    async #conflict(error, mine) {
        if (!STALE.has(error.status)) return false;
        const theirs = await this.#read();
        if (theirs.value === null) return false;
        this.#changed();
        const differ = FIELDS.filter((field) => theirs.value[field.name] !== mine[field.name]);
        put(
            this.#follows,
            el(
                "div",
                { class: "problem" },
                icon("warn"),
                el(
                    "div",
                    {},
                    el("strong", { text: "Somebody else has set the SLO meanwhile" }),
                    el("p", {
                        text: `It is generation ${theirs.value.generation} now, set ${moment(theirs.value.updated_us)}. Nothing of yours was stored.`,
                    }),
                    differ.length
                        ? el(
                              "table",
                              { class: "figures conflict" },
                              el(
                                  "thead",
                                  {},
                                  el(
                                      "tr",
                                      {},
                                      ["", "before", "theirs", "yours"].map((text) => el("th", { scope: "col", text })),
                                  ),
                              ),
                              el(
                                  "tbody",
                                  {},
                                  differ.map((field) =>
                                      el(
                                          "tr",
                                          {},
                                          el("th", { scope: "row", text: field.label }),
                                          [this.#base, theirs.value, mine].map((values) =>
                                              el("td", { text: values ? worded(field, values[field.name]) : "–" }),
                                          ),
                                      ),
                                  ),
                              ),
                          )
                        : el("p", { text: "It is the same as yours: there is nothing left to do." }),
                    el(
                        "p",
                        { class: "row" },
                        differ.length > 0 &&
                            button("Keep mine, on top of theirs", () => this.#keep(theirs), { class: "button small" }),
                        button("Take theirs", () => this.#build(theirs), { class: "button small" }),
                    ),
                ),
            ),
        );
        return true;
    }

    #keep(theirs) {
        this.#etag = theirs.etag;
        this.#base = theirs.value;
        this.#changed();
        this.#submit();
    }
}

function worded(field, value) {
    if (field.options) return field.options.find(([name]) => name === (value ?? ""))?.[1] ?? String(value);
    const text = field.show(value);
    return text === "" ? "none" : field.unit ? `${text} ${field.unit}` : text;
}

function toldNow(published) {
    if (published.envelope !== null) return "The job is steered live, inside the envelope that follows from it.";
    if (published.bound_ms === null) return "The job keeps its own bound for now.";
    return `The job is told ${duration(published.bound_ms)} for now; what differs from that is rolled out as the policy allows.`;
}

function followsOf({ recommended, transition, published }) {
    const chain = recommended?.steps.at(-1);
    return el(
        "div",
        { class: "problem problem-info" },
        icon("info"),
        el(
            "div",
            {},
            el("strong", { text: "What follows" }),
            el("p", {
                text:
                    recommended === null
                        ? "Nothing is recommended until there are reports."
                        : recommended.bound_ms === null
                          ? `No bound is recommended: ${chain?.reason ?? "there is not enough evidence"}.`
                          : `The recommended bound is ${duration(recommended.bound_ms)}.`,
            }),
            transition && el("p", { text: sentence(transition.text) }),
            el("p", { class: "hint", text: toldNow(published) }),
        ),
    );
}
