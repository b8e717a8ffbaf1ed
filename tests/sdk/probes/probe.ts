// Makes one call with the SDK and prints what it saw as JSON: `probe.js NAME URL TOKEN [ARGUMENT]`.

import { apiError, connect } from '../src/connect.js';
import { CredentialsApi, DeploymentsApi, NodePoolsApi, ResponseError, WorkloadsApi } from '../src/index.js';

async function main(name: string, url: string, token: string, argument: string): Promise<unknown> {
    const configuration = connect(url, token);
    const deployments = new DeploymentsApi(configuration);
    const workloads = new WorkloadsApi(configuration);
    switch (name) {
        case 'deployment': {
            const { deployment } = await deployments.getDeployment({ id: argument });
            const { name, image, command, status } = deployment;
            return { name, image, command, state: status?.state ?? null };
        }
        case 'credential': {
            const credential = await new CredentialsApi(configuration).getCredential({ name: argument });
            const kind = credential.cloudProvider === 'AWS' && credential.accessKeyId ? 'RedactedCredentialAws' : '';
            return { kind, cloudProvider: credential.cloudProvider };
        }
        case 'update': {
            const deploymentUpdate = { command: null, dockerOptions: { shmSize: null } };
            await deployments.updateDeployment({ id: argument, deploymentUpdate });
            return 'done';
        }
        case 'submit-deployment': {
            const admitted = await workloads.submitWorkload({ submitWorkloadRequest: { deployment: argument } });
            return { id: admitted.id, claimDeadlineAt: admitted.claimDeadlineAt };
        }
        case 'submit-image': {
            const submitWorkloadRequest = { image: argument, nodePool: 'pool', cloudConfig: {}, gpuType: ['t4', 'l4'] };
            return { id: (await workloads.submitWorkload({ submitWorkloadRequest })).id };
        }
        case 'ingress': {
            const { nodePool } = await new NodePoolsApi(configuration).getNodePool({ id: argument });
            return nodePool.ingress.release?.helmJob?.phase ?? null;
        }
        case 'workloads':
            return (await workloads.listWorkloads()).map((workload) => workload.vmType);
        case 'logs':
            return await deployments.streamLogs({ id: argument });
        case 'pages': {
            const first = await deployments.listDeploymentsRaw({ limit: 1 });
            const headers = first.raw.headers;
            const cursor = decodeURIComponent(/cursor=([^&>]+)/.exec(headers.get('link') ?? '')![1]);
            const second = await deployments.listDeployments({ limit: 1, cursor });
            const names = [...(await first.value()).deployments, ...second.deployments].map((d) => d.name);
            return { names, total: Number(headers.get('anycloud-total-count')) };
        }
    }
    throw new Error(`no such probe: ${name}`);
}

async function seen(): Promise<unknown> {
    const [name, url, token, argument] = process.argv.slice(2);
    try {
        return await main(name, url, token, argument ?? '');
    } catch (thrown) {
        if (!(thrown instanceof ResponseError)) {
            throw thrown;
        }
        const status = thrown.response.status;
        const error = await apiError(thrown);
        if (!error) {
            return { error: { status, code: null } };
        }
        return { error: { status, code: error.code, defined: error.defined, data: error.data ?? null } };
    }
}

console.log(JSON.stringify(await seen()));
