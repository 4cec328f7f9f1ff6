// What becomes of rollouts that are approved together: pure functions of what the controller answers for each.

import { gate, rolloutState, sentence } from "./words.js";

/** @import { FleetPage, RolloutAnswer } from "api" */
/** @import { Kind } from "./dom.js" */
/** @typedef {RolloutAnswer | string} Answer What an approval, or its dry run, came to; why it was refused, as text */
/** @typedef {{kind: Kind, name: string, text: string}} Outcome */

/**
 * Return what each approval comes to. In a dry run each was tried as if it were the only one, so here those wait for
 * their turn that would narrow beyond the fleet's limit once those before them are published.
 * @param {Answer[]} answers In the order in which they are approved.
 * @param {FleetPage["narrowing"] | null} limit The fleet's limit on narrowing; null for what has been done already.
 */
export function outcomesOf(answers, limit) {
    let free = limit === null ? Infinity : Math.max(limit.max_streams - limit.streams, 0);
    return answers.map((answer) => {
        if (typeof answer === "string") return refused(answer);
        const narrows = answer.state === "Published" && answer.direction === "Narrow" && !answer.first;
        if (!narrows) return outcomeOf(answer);
        free -= 1;
        return free >= 0 ? outcomeOf(answer) : waitsForTurn(limit?.max_streams);
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
 * @param {string} why
 * @returns {Outcome}
 */
function refused(why) {
    return { kind: "critical", name: "cannot be approved", text: sentence(why) };
}

/**
 * @param {number | undefined} most
 * @returns {Outcome}
 */
function waitsForTurn(most) {
    const text = `At most ${most} of the fleet's streams are narrowed at once; it goes on when one of them is done.`;
    return { kind: "pause", name: "waits for its turn", text };
}

/**
 * @param {RolloutAnswer} answer
 * @returns {Outcome}
 */
function outcomeOf({ state, held_by: heldBy, reason }) {
    const { kind, name } =
        heldBy === null ? rolloutState(state) : { kind: /** @type {Kind} */ ("pause"), name: gate(heldBy) };
    const why = reason.replace(/^(held|published)(: |$)/, "");
    return { kind: state === "Published" ? "ok" : kind, name, text: why && sentence(why) };
}
