// Signing in at an issuer: the authorization code flow with PKCE (RFC 6749, 7636) for a client without a secret.
//
// oauth4webapi does it: it makes what is random, and checks state, issuer, nonce and all else of each answer. It is
// loaded when somebody signs in.

import { Away, Rejected } from "./errors.js";

/** @import { SignInIssuer } from "api" */
/** @import { AuthorizationServer, Client, TokenEndpointResponse } from "oauth4webapi" */

/** @typedef {typeof import("oauth4webapi")} OAuth */
/** @typedef {{access: string, at: SignInIssuer | null, refresh: string | null, endsMs: number}} SignIn A token, with the issuer, and when and by what it is renewed: null where it was typed in, or cannot be */
/** @typedef {{at: SignInIssuer, hash: string, state: string, nonce: string, verifier: string}} Begun What is remembered meanwhile, with the view to return to */

const LIBRARY = "./vendor/oauth4webapi.js";
const LIMIT_MS = 20_000;
const FAILED = 500;
/** How far the clocks of the browser and of the issuer may be apart, as with the controller. */
const LEEWAY_S = 60;
/** After how long a token is renewed of which the issuer does not say when it ends. */
const UNSAID_S = 300;
/** As the controller accepts them. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];

/** @type {Record<string, string>} What issuers say most, in words; the rest they say themselves. */
const REFUSALS = {
    access_denied: "it was cancelled there, or you may not use Tidemark",
    invalid_grant: "your sign-in has ended there",
    login_required: "you are signed in there no longer",
    temporarily_unavailable: "it is not available now",
};

/**
 * Return where to go to sign in, and what to remember until the issuer sends the person back.
 * @param {SignInIssuer} at
 * @param {string} redirectUri
 * @param {string} hash
 */
export async function begin(at, redirectUri, hash) {
    const oauth = await library();
    const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()];
    const verifier = oauth.generateRandomCodeVerifier();
    const address = new URL(at.authorization_endpoint ?? "");
    const asked = {
        response_type: "code",
        client_id: at.client_id,
        redirect_uri: redirectUri,
        scope: at.scope,
        state,
        nonce,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
    return { address: address.href, begun: { at, hash, state, nonce, verifier } };
}

/**
 * Exchange the code with which the issuer sends a person back. As all below it throws `Rejected` and `Away`.
 * @param {Begun} begun
 * @param {URLSearchParams} parameters
 * @param {string} redirectUri
 */
export function finish({ at, state, nonce, verifier }, parameters, redirectUri) {
    const checked = at.scope.split(" ").includes("openid") ? { expectedNonce: nonce } : {};
    return answered(at, async (oauth, server, client, options) => {
        const valid = oauth.validateAuthResponse(server, client, parameters, state);
        const exchange = oauth.authorizationCodeGrantRequest;
        const answer = await exchange(server, client, oauth.None(), valid, redirectUri, verifier, options);
        return signIn(at, await oauth.processAuthorizationCodeResponse(server, client, answer, checked), null);
    });
}

/**
 * Renew a sign-in.
 * @param {SignInIssuer} at
 * @param {string} refresh
 */
export function renew(at, refresh) {
    return answered(at, async (oauth, server, client, options) => {
        const answer = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), refresh, options);
        return signIn(at, await oauth.processRefreshTokenResponse(server, client, answer), refresh);
    });
}

/**
 * End a sign-in at its issuer, where that can be asked for it (RFC 7009).
 * @param {SignInIssuer} at
 * @param {string} ended
 */
export async function revoke(at, ended) {
    if (!at.revocation_endpoint) return;
    await answered(at, async (oauth, server, client, options) => {
        const answer = await oauth.revocationRequest(server, client, oauth.None(), ended, options);
        await oauth.processRevocationResponse(answer);
    });
}

/** @returns {Promise<OAuth>} */
function library() {
    return import(LIBRARY);
}

/**
 * Ask an issuer; what goes wrong is said in words.
 * @template T
 * @param {SignInIssuer} at
 * @param {(oauth: OAuth, server: AuthorizationServer, client: Client, options: object) => Promise<T>} ask
 */
async function answered(at, ask) {
    const oauth = await library();
    const { issuer, token_endpoint, revocation_endpoint } = at;
    const said = { issuer, token_endpoint, revocation_endpoint, id_token_signing_alg_values_supported: ALGORITHMS };
    const client = { client_id: at.client_id, [oauth.clockTolerance]: LEEWAY_S };
    // The controller names no address without TLS but of this machine.
    const options = { signal: AbortSignal.timeout(LIMIT_MS), [oauth.allowInsecureRequests]: true };
    try {
        return await ask(oauth, /** @type {AuthorizationServer} */ (said), client, options);
    } catch (error) {
        if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
            const more = error.error_description ? ` (${error.error_description})` : "";
            throw rejected(`the issuer ${at.name} lets nobody in: ${REFUSALS[error.error] ?? error.error}${more}`);
        }
        const failed = error instanceof oauth.OperationProcessingError;
        if (failed && !(error.cause instanceof Response && error.cause.status >= FAILED)) {
            throw rejected(`the answer of the issuer ${at.name} cannot be used: ${error.message}`);
        }
        const unsent = error instanceof TypeError && !("code" in error);
        if (!failed && !unsent && !options.signal.aborted) throw error;
        // Browsers do not say which of the two it is.
        const why = failed ? "it failed" : "it cannot be reached, or takes no requests from this page (CORS)";
        throw new Away(why, `The issuer ${at.name}`);
    }
}

/** @param {string} detail */
function rejected(detail) {
    return new Rejected(401, { title: "You are not signed in", detail });
}

/**
 * @param {SignInIssuer} at
 * @param {TokenEndpointResponse} tokens
 * @param {string | null} before What renewed it. Issuers may give another one, and then it is worth nothing.
 * @returns {SignIn}
 */
function signIn(at, { access_token: access, refresh_token: next, expires_in: seconds = UNSAID_S }, before) {
    return { access, at, refresh: next ?? before, endsMs: Date.now() + seconds * 1_000 };
}
