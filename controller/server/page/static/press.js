// A press and its release make a click only while the control between them stays: what redraws the page waits for it.

/** No click takes longer; a release that never comes, as outside of the window, holds nothing up for longer. */
const LONGEST_MS = 10_000;

let over = Promise.resolve();
let end = () => {};

/** Returns a promise that is fulfilled when nothing is pressed. */
export const pressOver = () => over;

/** @param {Event} event */
function presses(event) {
    return event instanceof KeyboardEvent ? event.key === " " : event instanceof PointerEvent && event.button < 1;
}

/** @param {Event} event */
function begin(event) {
    // What is dragged shows new figures meanwhile.
    if (!presses(event) || !(event.target instanceof Element && event.target.closest("a, button, summary"))) return;
    over = new Promise((resolve) => {
        end = resolve;
        setTimeout(resolve, LONGEST_MS);
    });
}

/** @param {Event} event */
function release(event) {
    // The click comes with the release, in the same task.
    if (presses(event)) setTimeout(end);
}

for (const type of ["pointerdown", "keydown"]) addEventListener(type, begin, true);
for (const type of ["pointerup", "pointercancel", "keyup"]) addEventListener(type, release, true);
