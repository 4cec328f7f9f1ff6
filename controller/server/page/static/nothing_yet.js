// What to do where no stream is known yet.

import { el } from "./dom.js";

const SNIPPET = `from tidemark.spark_jobs import adaptive_watermark

clicks.transform(adaptive_watermark("ts", "10 minutes", stream="clicks"))`;

/** Return the card: the line for a job, how to see what is missing, and the demo. */
export function nothingYet() {
    return el(
        "section",
        { class: "card start", "aria-label": "Start", hidden: true },
        el("h2", { text: "No stream is known yet" }),
        el("p", { text: "A stream is one input of one job. It appears when the job reports for the first time." }),
        el(
            "ol",
            {},
            step("In a job, put this in the place of .withWatermark(...):", SNIPPET),
            step(
                "Tell the job where this controller is:",
                `spark-submit --conf spark.tidemark.job=shop \\\n    --conf spark.tidemark.controller.url=${new URL(".", document.baseURI).href} job.py`,
            ),
            step("See what is still missing:", "tidemark doctor shop"),
        ),
        el("p", {}, "Or look at a real Spark job first: ", el("code", { text: "tidemark demo --keep" }), "."),
    );
}

/**
 * @param {string} text
 * @param {string} code
 */
function step(text, code) {
    return el("li", {}, el("p", { text }), el("pre", { tabindex: "0" }, el("code", { text: code })));
}
