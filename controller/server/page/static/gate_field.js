// Which outside gates a policy names, chosen from those that the controller's operators have set up.

import { el } from "./dom.js";

/** @import { GateList } from "api" */
/** @import { Control } from "./spec_form.js" */

/**
 * Return the choice.
 * @param {string[]} named The gates of the policy; one that is no longer set up can only be taken away.
 * @param {GateList["gates"]} offered
 * @returns {Control}
 */
export function gateControl(named, offered) {
    const gone = named.filter((name) => offered.every((gate) => gate.name !== name));
    const choices = [
        ...offered.map(({ name, asks }) => ({ name, hint: asks })),
        ...gone.map((name) => ({ name, hint: "no longer set up; while it is named here, nothing is narrowed" })),
    ];
    const boxes = choices.map(({ name }) =>
        el("input", { type: "checkbox", value: name, checked: named.includes(name) }),
    );
    return {
        node: el(
            "fieldset",
            { class: "field field-wide gates" },
            el("legend", { text: "Gates that are asked before a narrowing is published and while it is verified" }),
            choices.map(({ name, hint }, index) =>
                el("label", {}, boxes[index], el("span", { text: name }), el("span", { class: "hint", text: hint })),
            ),
            choices.length === 0 &&
                el("p", {
                    class: "hint",
                    text: "None is set up. The controller's operators add gates to the file in TIDEMARK_GATES_FILE.",
                }),
        ),
        read: () => boxes.filter((box) => box.checked).map((box) => box.value),
        focus: () => boxes[0]?.focus(),
        say: () => undefined,
    };
}
