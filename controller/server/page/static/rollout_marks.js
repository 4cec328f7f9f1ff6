// Rollouts on the charts over time: a line where one was published, and where it took effect.

import { drawMark } from "./drawing.js";
import { colour } from "./theme.js";

/** @import { RolloutTimes } from "api" */
/** @typedef {Pick<RolloutTimes, "state" | "published_us" | "effective_us">} Marked */

/**
 * Whether the job may have had it: another one replaces some rollouts before that, and they get no line.
 * @param {Marked} rollout
 */
export function reachedJob(rollout) {
    return rollout.effective_us !== null || !["Superseded", "Expired"].includes(rollout.state);
}

/**
 * @param {uPlot} plot
 * @param {Marked[]} rollouts
 */
export function markRollouts(plot, rollouts) {
    for (const rollout of rollouts) {
        if (rollout.published_us === null) continue;
        const back = rollout.state === "RolledBack";
        const line = reachedJob(rollout);
        const stroke = colour(back ? "warning" : line ? "ink-soft" : "line-strong");
        drawMark(plot, rollout.published_us / 1e6, { stroke, shape: back ? "cross" : "down", line });
        if (rollout.effective_us !== null) {
            drawMark(plot, rollout.effective_us / 1e6, { stroke, dash: [2, 4], shape: "none" });
        }
    }
}
