// Requests that failed.

/** @import { Problem } from "api" */

/** The controller rejected the request and gave its reason, or an issuer the sign-in that it takes (401). */
export class Rejected extends Error {
    /**
     * @param {number} status
     * @param {Partial<Problem>} problem
     */
    constructor(status, problem) {
        super(problem.detail || problem.title || `the controller answered ${status}`);
        this.status = status;
        this.problem = problem;
    }
}

/** The controller did not answer, or something else answered in its place; or the issuer of the sign-in did not. */
export class Away extends Error {
    constructor(/** @type {string} */ message, who = "The controller") {
        super(message);
        this.who = who;
    }
}
