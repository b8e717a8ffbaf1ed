// Generated from sdk/generator/typescript/connect.mustache.
// The way in: `new WorkloadsApi(connect(url, token)).listWorkloads()`.

import type { ApiError } from './models/index.js';
import { Configuration, ResponseError } from './runtime.js';

/**
 * What all the `…Api` classes need to call the API at `url`.
 * @param token the local installation's, an `acapi_…` token, or a workload's where an operation asks for that
 */
export function connect(url: string, token: string): Configuration {
    return new Configuration({
        basePath: url.replace(/\/+$/, '').replace(/\/v1$/, ''),
        accessToken: token,
        headers: { 'AnyCloud-Client-Version': '0.1.70' },
    });
}

/** The contract's error in what an operation threw; undefined if it wasn't an answer of the API. */
export async function apiError(thrown: unknown): Promise<ApiError | undefined> {
    if (!(thrown instanceof ResponseError)) {
        return undefined;
    }
    try {
        const body = await thrown.response.clone().json();
        return typeof body?.code === 'string' ? body : undefined;
    } catch {
        return undefined;
    }
}
