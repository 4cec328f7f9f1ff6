// The partitions as a table, and what marks each of them.

import { badge, button, figures } from "./dom.js";
import { count, duration, moment } from "./format.js";

/** @import { HeatmapPartition, Partition } from "api" */
/** @import { Kind } from "./dom.js" */

/** @type {Record<string, {kind: Kind, name: string}>} */
const STATES = {
    Idle: { kind: "idle", name: "idle" },
    Behind: { kind: "warning", name: "behind" },
    Gone: { kind: "idle", name: "gone" },
};
const COLUMNS = [
    "Partition",
    "State",
    "Rows seen",
    "Need",
    "Costs",
    "Without it",
    "Behind",
    "Future-dated",
    "Last seen",
];

/**
 * Return what is unusual about a partition.
 * @param {HeatmapPartition} row
 * @param {Partition | undefined} known
 */
export function marksOf(row, known) {
    /** @type {{kind: Kind, name: string}[]} */
    const marks = [];
    if (known?.skewed) marks.push({ kind: "warning", name: `skewed, costs ${duration(known.costs_ms)}` });
    const state = STATES[known?.state ?? row.state ?? ""];
    if (state) marks.push(state);
    if (known?.future) marks.push({ kind: "warning", name: "future-dated" });
    if (known?.misdated) marks.push({ kind: "warning", name: "misdated" });
    return marks;
}

/**
 * Return the table.
 * @param {HeatmapPartition[]} rows
 * @param {Map<string, Partition>} partitions What is known of them, by name.
 * @param {(name: string, withoutMs: number | null) => void} choose Called when a person asks for one's curve.
 */
export function partitionTable(rows, partitions, choose) {
    return figures(
        COLUMNS.map((text, n) => ({ text, class: n > 1 ? "number" : undefined })),
        rows.map((row) => {
            const known = partitions.get(row.partition);
            const marks = marksOf(row, known);
            return {
                cells: [
                    button(row.partition, () => choose(row.partition, known?.without_bound_ms ?? null), {
                        class: "link",
                        title: "Show its own curve over the stream's",
                    }),
                    marks.length ? marks.map((mark) => badge(mark.kind, mark.name)) : "active",
                    count(known?.pairs),
                    duration(known?.need_ms),
                    duration(known?.costs_ms),
                    duration(known?.without_bound_ms),
                    duration(known?.behind_ms),
                    count(known?.future_rows),
                    moment(known?.last_seen_us),
                ],
            };
        }),
    );
}
