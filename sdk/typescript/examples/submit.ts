// Submits a Job to a Deployment and waits until it has ended.
//
//     ANYCLOUD_API_URL=… ANYCLOUD_API_TOKEN=… node dist/examples/submit.js DEPLOYMENT [--url URL] [--token TOKEN]
//
// DEPLOYMENT is a name or an id. Ends with 0 when the Job completed, with 1 when it ended otherwise or was refused.

import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { apiError, connect } from '../src/connect.js';
import { WorkloadsApi } from '../src/index.js';

const ENDED = new Set(['completed', 'failed', 'errored', 'invalid', 'terminated']);

async function main(): Promise<number> {
    const { positionals, values } = parseArgs({
        allowPositionals: true,
        options: { url: { type: 'string' }, token: { type: 'string' } },
    });
    const [deployment] = positionals;
    const url = values.url ?? process.env.ANYCLOUD_API_URL;
    const token = values.token ?? process.env.ANYCLOUD_API_TOKEN;
    if (!deployment || !url || !token) {
        console.error('usage: submit DEPLOYMENT; set ANYCLOUD_API_URL and ANYCLOUD_API_TOKEN, or give --url and --token');
        return 2;
    }
    try {
        return await submit(new WorkloadsApi(connect(url, token)), deployment);
    } catch (thrown) {
        const error = await apiError(thrown);
        console.error(error ? `${error.code}: ${error.message}` : thrown);
        return 1;
    }
}

async function submit(workloads: WorkloadsApi, deployment: string): Promise<number> {
    const { id } = await workloads.submitWorkload({ submitWorkloadRequest: { deployment } });
    console.log(`${id} submitted`);
    let state = '';
    while (!ENDED.has(state)) {
        await setTimeout(500);
        const before = state;
        state = (await workloads.getWorkloadStatus({ id })).workload.state;
        if (state !== before) {
            console.log(`${id} ${state}`);
        }
    }
    return state === 'completed' ? 0 : 1;
}

process.exitCode = await main();
