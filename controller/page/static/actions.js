// What a person may do with a stream besides its SLO: each with a confirmation and a reason.

import { send } from "./api.js";
import { Dialog, reasonField } from "./dialog.js";
import { button, el, put } from "./dom.js";
import { about, duration, shares } from "./format.js";

const MAX_REASON = 1_000;

const ROLLOUT_ACTS = {
    approve: {
        verb: "Approve",
        kind: "primary",
        told: "It is published as soon as nothing else holds it; the job takes it as its mode says.",
    },
    discard: {
        verb: "Discard",
        kind: "danger",
        told: "No job is told of it; it, and what goes further, is not proposed again for a while.",
    },
    rollback: {
        verb: "Roll back",
        kind: "danger",
        told: "Jobs are told again what they were told before it; it is not tried again for a while.",
    },
};

/** The buttons for what may be done with a rollout now. */
export function rolloutButtons(path, rollout, shell) {
    return rollout.may.map((act) => {
        const { verb, kind } = ROLLOUT_ACTS[act];
        return button(`${verb} …`, () => confirmRollout(path, rollout, act, shell), { class: `button ${kind}` });
    });
}

/** The button that pauses or resumes the rollouts of a stream. */
export function pauseButton(path, paused, shell) {
    const verb = paused ? "Resume" : "Pause";
    return button(`${verb} …`, () =>
        confirm({
            title: `${verb} the rollouts of this stream?`,
            told: paused
                ? ["What is recommended is rolled again, as the policy allows."]
                : [
                      "Nothing new is rolled until somebody resumes it. What is under way is still watched, and the job keeps the bound it has.",
                  ],
            verb,
            kind: "primary",
            shell,
            act: (reason) => send("POST", `${path}:${paused ? "resume" : "pause"}`, { reason }),
            done: paused ? "Rollouts are resumed." : "Rollouts are paused.",
        }),
    );
}

function confirmRollout(path, rollout, act, shell) {
    const { verb, kind, told } = ROLLOUT_ACTS[act];
    const back = act === "rollback";
    const from = told_(back ? rollout.to_bound_ms : (rollout.from_bound_ms ?? rollout.in_use_bound_ms));
    const to = told_(back ? rollout.from_bound_ms : rollout.to_bound_ms);
    const { predicted } = rollout;
    confirm({
        title: `${verb} rollout ${rollout.id}?`,
        told: [
            act === "discard"
                ? `It would take the bound from ${from} to ${to}.`
                : `It ${back ? "takes" : "will take"} the bound ${back ? "back " : ""}from ${from} to ${to}.`,
            !back &&
                predicted.rows > 0 &&
                `Predicted: ${shares(predicted.min_ppm, predicted.max_ppm)} kept, mean latency ${predicted.latency_wall_ms === null ? "not known" : duration(predicted.latency_wall_ms)}, ${predicted.state_rows === null ? "state not known" : `${about(predicted.state_rows)} rows of state`}.`,
            told,
        ],
        verb,
        kind,
        shell,
        act: (reason) => send("POST", `${path}/rollouts/${rollout.id}:${act}`, { reason }),
        done: { approve: "Approved.", discard: "Discarded.", rollback: "Rolled back." }[act],
    });
}

function told_(boundMs) {
    return boundMs === null ? "the job's own" : duration(boundMs);
}

function confirm({ title, told, verb, kind, act, done, shell }) {
    const dialog = new Dialog(title, { shell });
    const reason = reasonField({ most: MAX_REASON });
    put(
        dialog.body,
        told.filter(Boolean).map((text) => el("p", { text })),
        reason.node,
    );
    put(
        dialog.buttons,
        button("Cancel", () => dialog.close()),
        el("button", { type: "submit", class: `button ${kind}`, text: verb }),
    );
    dialog.form.addEventListener("submit", async () => {
        const why = reason.read();
        if (why === null) return;
        const answer = await dialog.attempt(() => act(why));
        if (answer === undefined) return;
        dialog.close();
        shell.done(done);
        shell.refresh();
    });
    dialog.open();
}
