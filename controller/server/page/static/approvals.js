// What becomes of rollouts that are approved together: pure functions of what the controller answers for each.

import { gate, rolloutState, sentence } from "./words.js";

/** @import { FleetPage, RolloutAnswer } from "api" */
/** @import { Kind } from "./dom.js" */
/** @typedef {RolloutAnswer | string} Answer What an approval, or its dry run, came to; why it was refused, as text */
/** @typedef {{kind: Kind, name: string, text: string}} Outcome */

const MAY_WAIT = "Only so many jobs restart at once, so it may be held until its turn comes.";

/**
 * Return what each approval comes to. In a dry run each was tried as if it were the only one, so here those wait for
 * their turn that would narrow beyond the fleet's limit once those before them are published. How many jobs restart at
 * once depends on their labels too, so of those behind the first one it is only said that they may wait.
 * @param {Answer[]} answers In the order in which they are approved.
 * @param {FleetPage["narrowing"] | null} limit The fleet's limit on narrowing; null for what has been done already.
 */
export function outcomesOf(answers, limit) {
    if (limit === null) return answers.map(outcomeOf);
    let free = Math.max(limit.max_streams - limit.streams, 0);
    let restarts = 0;
    return answers.map((answer) => {
        const found = outcomeOf(answer);
        if (typeof answer === "string" || answer.state !== "Published") return found;
        const narrows = answer.direction === "Narrow" && !answer.first;
        if (narrows && free === 0) return waitsForTurn(limit.max_streams);
        if (narrows) free -= 1;
        if (answer.mode !== "Restart") return found;
        restarts += 1;
        return restarts === 1 ? found : { ...found, text: MAY_WAIT };
    });
}

/**
 * Return how many came to what: "2 published, 1 cannot be approved".
 * @param {Outcome[]} outcomes
 */
export function tally(outcomes) {
    const counts = new Map();
    for (const { name } of outcomes) counts.set(name, (counts.get(name) ?? 0) + 1);
    return [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
}

/**
 * @param {number} most
 * @returns {Outcome}
 */
function waitsForTurn(most) {
    const text = `At most ${most} of the fleet's streams are narrowed at once; it goes on when one of them is done.`;
    return { kind: "pause", name: "waits for its turn", text };
}

/**
 * @param {Answer} answer
 * @returns {Outcome}
 */
function outcomeOf(answer) {
    if (typeof answer === "string") return { kind: "critical", name: "cannot be approved", text: sentence(answer) };
    const { state, held_by: heldBy, reason } = answer;
    const why = reason.replace(/^(held|published)(: |$)/, "");
    const text = why && sentence(why);
    if (heldBy !== null) return { kind: "pause", name: gate(heldBy), text };
    const { kind, name } = rolloutState(state);
    return { kind: state === "Published" ? "ok" : kind, name, text };
}
