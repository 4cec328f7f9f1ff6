// A card of a stream's view.

import { button, el } from "./dom.js";

/** A card with a heading, controls on its right, and a body. */
export class Card {
    controls = el("span", { class: "row card-controls" });
    body = el("div", { class: "card-body" });

    /**
     * @param {string} title
     * @param {string} name Part of its class.
     */
    constructor(title, name) {
        this.title = title;
        this.node = el(
            "section",
            { class: `card panel panel-${name} loading`, "aria-label": title },
            el("div", { class: "card-head" }, el("h2", { text: title }), this.controls),
            this.body,
        );
    }

    /** Show the body: there is something in it now. */
    loaded() {
        this.node.classList.remove("loading");
    }

    /**
     * Add a place for a table, and the button that shows it instead of the picture.
     * @param {(shown: boolean) => void} toggled Called when the table was shown or hidden.
     */
    addTable(toggled) {
        const place = el("div", {
            class: "table-scroll",
            hidden: true,
            tabindex: "0",
            role: "region",
            "aria-label": this.title,
        });
        const toggle = button(
            "As a table",
            () => {
                place.hidden = !place.hidden;
                toggle.setAttribute("aria-pressed", String(!place.hidden));
                toggled(!place.hidden);
            },
            { class: "button small", "aria-pressed": "false" },
        );
        this.controls.append(toggle);
        return place;
    }
}
