// The rollouts that wait for approval: the first ones, each with the way to its dialog, and one button for all.

import { openApproveAll } from "./approve_all.js";
import { Caller } from "./caller.js";
import { el, put } from "./dom.js";
import { appliedOf, awaitsApproval, nextOf } from "./fleet_list.js";
import { bound, duration } from "./format.js";
import { streamHash } from "./router.js";
import { plural } from "./words.js";

/** @import { FleetStream } from "api" */
/** @import { PageShell } from "./stream.js" */

const MAX_SHOWN = 6;

/** The card; hidden while nothing waits. */
export class WaitingCard {
    node = el("section", { class: "card waiting", "aria-label": "Waits for approval", hidden: true });
    #shell;
    #caller = new Caller(null);

    /** @param {PageShell} shell */
    constructor(shell) {
        this.#shell = shell;
    }

    /**
     * @param {FleetStream[]} all All streams of the fleet.
     * @param {AbortSignal} signal
     */
    async show(all, signal) {
        const streams = all.filter(awaitsApproval);
        if (streams.length > 0) await this.#caller.refresh(signal);
        this.node.hidden = streams.length === 0;
        const open = () => openApproveAll(this.#shell);
        const left = streams.length - MAX_SHOWN;
        put(
            this.node,
            el(
                "div",
                { class: "card-head" },
                el("h2", {
                    text: `${plural(streams.length, "rollout")} ${streams.length === 1 ? "waits" : "wait"} for approval`,
                }),
                this.#caller.button(`Approve all that wait (${streams.length}) …`, open, { class: "button small" }),
            ),
            el(
                "ul",
                {},
                streams.slice(0, MAX_SHOWN).map(itemOf),
                left > 0 && el("li", { class: "dim", text: `and ${plural(left, "more stream")}` }),
            ),
        );
    }
}

/** @param {FleetStream} waiting */
function itemOf(waiting) {
    const { job, stream } = waiting;
    return el(
        "li",
        {},
        el("span", {}, el("span", { class: "dim", text: `${job} / ` }), el("strong", { text: stream })),
        el("span", { text: `${duration(appliedOf(waiting))} → ${bound(nextOf(waiting))}` }),
        el(
            "a",
            {
                class: "button small",
                href: streamHash(job, stream, { review: "1" }),
                "aria-label": `Review the rollout of ${job} / ${stream}`,
            },
            "Review …",
        ),
    );
}
