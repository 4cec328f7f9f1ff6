// The kill switch on one stream: set it or take it away, with what that costs first.

import { query, send } from "./api.js";
import { beforeAfter, beforeAfterToCome } from "./before_after.js";
import { Dialog, reasonField } from "./dialog.js";
import { button, el, put, submitButton } from "./dom.js";
import { sentence } from "./words.js";

/** @import { PinAnswer, StreamStatus } from "api" */
/** @import { Shell } from "./stream.js" */

const MAX_REASON = 1_000;

/**
 * Return the button that pins a stream or takes its pin away; a pin on more than it is not changed here.
 * @param {string} path
 * @param {StreamStatus["pin"]} pin
 * @param {() => StreamStatus} now Returns the newest status.
 * @param {Shell} shell
 */
export function pinButton(path, pin, now, shell) {
    if (pin !== null && pin.scope !== "stream") return el("span", { class: "dim", text: `on the whole ${pin.scope}` });
    const label = pin === null ? "Pin …" : "Take the pin away …";
    return shell.caller.button(label, () => openPinForm(path, now(), shell), { class: "button small" });
}

/**
 * Open the dialog.
 * @param {string} path
 * @param {StreamStatus} status
 * @param {Shell} shell
 */
export async function openPinForm(path, status, shell) {
    const removes = status.pin !== null;
    const dialog = new Dialog(removes ? "Take the pin away?" : "Pin this stream?", shell, { wide: true });
    const reason = reasonField(MAX_REASON);
    const to = el(
        "select",
        { id: "pin-to" },
        el("option", { value: "Off", text: "its own bound" }),
        status.applied?.ceiling_ms !== null &&
            status.applied !== null &&
            el("option", { value: "Ceiling", text: "its ceiling alone" }),
    );
    const effect = el(
        "div",
        { class: "consequences pin-effect", role: "status" },
        el("p"),
        beforeAfterToCome(removes || status.published.bound_ms !== null),
    );
    const url = (/** @type {Record<string, string>} */ more = {}) =>
        query("v1/pin", { job: status.job, stream: status.stream, ...more });
    /** @type {(given: string, dry: boolean) => Promise<PinAnswer>} */
    const ask = (given, dry) => {
        /** @type {Record<string, string>} */
        const options = dry ? { dryRun: "All" } : {};
        return removes
            ? send("DELETE", url({ ...options, ...(given ? { reason: given } : {}) }), null)
            : send("PUT", url(options), { to: to.value, reason: given || "dry run" });
    };
    const show = async () => {
        const answer = await dialog.attempt(() => ask("", true));
        const [found] = answer?.streams ?? [];
        if (!found) return put(effect);
        put(
            effect,
            el("p", { text: sentence(found.text.replace(/^[^:]*: /, "")) }),
            await beforeAfter(path, found.from_bound_ms, found.bound_ms),
        );
    };
    put(
        dialog.body,
        el("p", {
            text: removes
                ? "The controller steers the stream again, as its policy allows."
                : "A pin holds the stream at once, whatever is published, until somebody takes it away.",
        }),
        !removes && el("div", { class: "field" }, el("label", { for: "pin-to", text: "Hold it to" }), to),
        effect,
        reason.node,
    );
    put(
        dialog.buttons,
        button("Cancel", () => dialog.close()),
        submitButton(removes ? "Take it away" : "Pin it", removes ? "primary" : "danger"),
    );
    to.addEventListener("change", show);
    dialog.form.addEventListener("submit", async () => {
        const given = reason.read();
        if (given === null) return;
        const answer = await dialog.attempt(() => ask(given, false));
        if (answer === undefined) return;
        dialog.close();
        shell.done(removes ? "The pin is taken away." : "The stream is pinned.");
        shell.refresh();
    });
    dialog.open();
    await show();
}
