// What a person may do with a stream besides its SLO, each with a confirmation and a reason.

import { send } from "./api.js";
import { beforeAfter, beforeAfterToCome } from "./before_after.js";
import { Dialog, reasonField } from "./dialog.js";
import { button, el, put, submitButton } from "./dom.js";
import { duration } from "./format.js";

/** @import { RolloutAnswer } from "api" */
/** @import { Shell } from "./stream.js" */
/** @typedef {"primary" | "danger"} ButtonKind */

const MAX_REASON = 1_000;

/** @type {Record<RolloutAnswer["may"][number], {verb: string, kind: ButtonKind, effect: string, done: string}>} */
const ROLLOUT_ACTIONS = {
    approve: {
        verb: "Approve",
        kind: "primary",
        effect: "It is published as soon as nothing else holds it; the job takes it as its mode says.",
        done: "Approved.",
    },
    discard: {
        verb: "Discard",
        kind: "danger",
        effect: "It is not published. This vetoes the bound, and any further in its direction, until somebody lifts that.",
        done: "Discarded.",
    },
    rollback: {
        verb: "Roll back",
        kind: "danger",
        effect: "What was published before it is published again. This vetoes the bound, and any further in its direction, until somebody lifts that.",
        done: "Rolled back.",
    },
    lift: {
        verb: "Lift the veto",
        kind: "primary",
        effect: "If it is recommended again, it is published as the policy allows.",
        done: "The veto is lifted.",
    },
};

/**
 * Return the buttons for what may be done with a rollout now.
 * @param {string} path
 * @param {RolloutAnswer} rollout
 * @param {Shell} shell
 */
export function rolloutButtons(path, rollout, shell) {
    return rollout.may.map((action) => {
        const { verb, kind } = ROLLOUT_ACTIONS[action];
        const open = () => confirmRollout(path, rollout, action, shell);
        return shell.caller.button(`${verb} …`, open, { class: `button ${kind}` });
    });
}

/**
 * Return the button that pauses or resumes the rollouts of a stream.
 * @param {string} path
 * @param {boolean} paused
 * @param {Shell} shell
 */
export function pauseButton(path, paused, shell) {
    const verb = paused ? "Resume" : "Pause";
    return shell.caller.button(`${verb} …`, () => confirmPause(path, paused, shell), { class: "button small" });
}

/**
 * Ask before pausing or resuming.
 * @param {string} path
 * @param {boolean} paused
 * @param {Shell} shell
 */
export function confirmPause(path, paused, shell) {
    const verb = paused ? "Resume" : "Pause";
    confirm({
        title: `${verb} the rollouts of this stream?`,
        texts: paused
            ? ["Recommended bounds are rolled out again, as the policy allows."]
            : [
                  "Nothing new is rolled out until somebody resumes it. A rollout under way is still watched, and the job keeps its bound.",
              ],
        verb,
        kind: "primary",
        shell,
        action: (reason) => send("POST", `${path}:${paused ? "resume" : "pause"}`, { reason }),
        done: paused ? "Rollouts are resumed." : "Rollouts are paused.",
    });
}

/**
 * Ask before acting on a rollout, with what the change of the bound does.
 * @param {string} path
 * @param {RolloutAnswer} rollout
 * @param {RolloutAnswer["may"][number]} action
 * @param {Shell} shell
 */
export function confirmRollout(path, rollout, action, shell) {
    const { verb, kind, effect, done } = ROLLOUT_ACTIONS[action];
    const back = action === "rollback";
    const fromMs = back ? rollout.to_bound_ms : (rollout.from_bound_ms ?? rollout.in_use_bound_ms);
    const from = boundText(fromMs);
    const to = boundText(back ? rollout.from_bound_ms : rollout.to_bound_ms);
    const takes = { approve: "will take", discard: "would take", rollback: "takes", lift: "was to take" }[action];
    confirm({
        title: action === "lift" ? `Lift the veto on rollout ${rollout.id}?` : `${verb} rollout ${rollout.id}?`,
        texts: [`It ${takes} the bound ${back ? "back " : ""}from ${from} to ${to}.`, effect],
        // Before is what the job runs with now, whatever is published.
        figures: back || action === "lift" ? null : beforeAfter(path, rollout.in_use_bound_ms, rollout.to_bound_ms),
        verb,
        kind,
        shell,
        action: (reason) => send("POST", `${path}/rollouts/${rollout.id}:${action}`, { reason }),
        done,
    });
}

/** @param {number | null} boundMs */
function boundText(boundMs) {
    return boundMs === null ? "the job's own" : duration(boundMs);
}

/**
 * Ask before doing something, with the reason for it.
 * @param {object} what
 * @param {string} what.title
 * @param {string[]} what.texts
 * @param {Promise<Element> | null} [what.figures] Shown once they are known.
 * @param {string} what.verb
 * @param {ButtonKind} what.kind
 * @param {(reason: string) => Promise<unknown>} what.action
 * @param {string} what.done Message once it is done.
 * @param {Shell} what.shell
 */
export function confirm({ title, texts, figures = null, verb, kind, action, done, shell }) {
    const dialog = new Dialog(title, shell, { wide: figures !== null });
    const place = el("div", { class: "consequences", role: "status" }, figures && beforeAfterToCome());
    const reason = reasonField(MAX_REASON);
    put(
        dialog.body,
        texts.map((text) => el("p", { text })),
        figures && place,
        reason.node,
    );
    put(
        dialog.buttons,
        button("Cancel", () => dialog.close()),
        submitButton(verb, kind),
    );
    dialog.form.addEventListener("submit", async () => {
        const given = reason.read();
        if (given === null) return;
        const answer = await dialog.attempt(() => action(given));
        if (answer === undefined) return;
        dialog.close();
        shell.done(done);
        shell.refresh();
    });
    dialog.open();
    figures?.then((table) => put(place, table));
}
