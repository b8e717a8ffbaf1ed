/* tslint:disable */
/* eslint-disable */
/**
 *
 * @export
 * @interface Admission
 */
export interface Admission {
    /**
     *
     */
    id: string;
    /**
     * Set for a Job that targets a Deployment, and for nothing else.
     */
    submissionRevision?: number;
    /**
     *
     */
    claimDeadlineAt: number | null;
    /**
     *
     */
    url?: string;
}
/**
 * Why a call failed. Which codes an operation has, openapi.yaml says.
 * @export
 * @interface ApiError
 */
export interface ApiError {
    /**
     *
     */
    code: string;
    /**
     * The code is one that the operation declares.
     */
    defined: boolean;
    /**
     *
     */
    message: string;
    /**
     * The HTTP status.
     */
    status: number;
    /**
     * More about the code; its shape is that of the code's `data` in openapi.yaml.
     */
    data?: any | null;
}
/**
 *
 * @export
 * @interface ApiToken
 */
export interface ApiToken {
    /**
     *
     */
    token: string;
}
/**
 *
 * @export
 * @interface Bucket
 */
export interface Bucket {
    /**
     *
     */
    name: string;
}
/**
 *
 * @export
 * @interface BucketPage
 */
export interface BucketPage {
    /**
     *
     */
    buckets: Array<BucketPageEntry>;
    /**
     * Unset on the last page.
     */
    nextCursor: string | null;
}
/**
 *
 * @export
 * @interface BucketPageEntry
 */
export interface BucketPageEntry {
    /**
     *
     */
    name: string;
    /**
     *
     */
    region: string | null;
    /**
     *
     */
    createdAt: number | null;
}
/**
 *
 * @export
 * @interface Cancellation
 */
export interface Cancellation {
    /**
     *
     */
    cancelled: boolean;
}
/**
 *
 * @export
 * @interface ChannelSettings
 */
export interface ChannelSettings {
    /**
     *
     */
    webhook: string;
}
/**
 *
 * @export
 * @interface ChannelTest
 */
export interface ChannelTest {
    /**
     * Unset: the channel's own.
     */
    webhook?: string;
}
/**
 * @type CloudCredential
 * Key material of an account. Only ever sent to the API, never answered.
 * @export
 */
export type CloudCredential = { cloudProvider: 'AWS' } & CloudCredentialAws | { cloudProvider: 'Azure' } & CloudCredentialAzure | { cloudProvider: 'Cloudflare' } & CloudCredentialCloudflare | { cloudProvider: 'GCP' } & CloudCredentialGcp | { cloudProvider: 'Lambda' } & CloudCredentialLambdaLabs;
/**
 *
 * @export
 * @interface CloudCredentialAws
 */
export interface CloudCredentialAws {
    /**
     *
     */
    cloudProvider: CloudCredentialAwsCloudProviderEnum;
    /**
     *
     */
    accessKeyId: string;
    /**
     *
     */
    secretAccessKey: string;
    /**
     *
     */
    sessionToken?: string;
}


/**
 * @export
 */
export const CloudCredentialAwsCloudProviderEnum = {
    Aws: 'AWS',
} as const;
export type CloudCredentialAwsCloudProviderEnum = typeof CloudCredentialAwsCloudProviderEnum[keyof typeof CloudCredentialAwsCloudProviderEnum];

/**
 *
 * @export
 * @interface CloudCredentialAzure
 */
export interface CloudCredentialAzure {
    /**
     *
     */
    cloudProvider: CloudCredentialAzureCloudProviderEnum;
    /**
     *
     */
    applicationId: string;
    /**
     *
     */
    directoryId: string;
    /**
     *
     */
    secret: string;
    /**
     *
     */
    subscriptionId: string;
}


/**
 * @export
 */
export const CloudCredentialAzureCloudProviderEnum = {
    Azure: 'Azure',
} as const;
export type CloudCredentialAzureCloudProviderEnum = typeof CloudCredentialAzureCloudProviderEnum[keyof typeof CloudCredentialAzureCloudProviderEnum];

/**
 *
 * @export
 * @interface CloudCredentialCloudflare
 */
export interface CloudCredentialCloudflare {
    /**
     *
     */
    cloudProvider: CloudCredentialCloudflareCloudProviderEnum;
    /**
     *
     */
    accountId: string;
    /**
     *
     */
    apiToken: string;
    /**
     * One of `default`, `eu`, `fedramp`; later releases may have more.
     */
    jurisdiction?: string;
}


/**
 * @export
 */
export const CloudCredentialCloudflareCloudProviderEnum = {
    Cloudflare: 'Cloudflare',
} as const;
export type CloudCredentialCloudflareCloudProviderEnum = typeof CloudCredentialCloudflareCloudProviderEnum[keyof typeof CloudCredentialCloudflareCloudProviderEnum];

/**
 *
 * @export
 * @interface CloudCredentialGcp
 */
export interface CloudCredentialGcp {
    /**
     *
     */
    cloudProvider: CloudCredentialGcpCloudProviderEnum;
    /**
     *
     */
    clientEmail: string;
    /**
     *
     */
    privateKey: string;
    /**
     *
     */
    projectId: string;
    /**
     *
     */
    billingExportDataset?: string;
}


/**
 * @export
 */
export const CloudCredentialGcpCloudProviderEnum = {
    Gcp: 'GCP',
} as const;
export type CloudCredentialGcpCloudProviderEnum = typeof CloudCredentialGcpCloudProviderEnum[keyof typeof CloudCredentialGcpCloudProviderEnum];

/**
 *
 * @export
 * @interface CloudCredentialLambdaLabs
 */
export interface CloudCredentialLambdaLabs {
    /**
     *
     */
    cloudProvider: CloudCredentialLambdaLabsCloudProviderEnum;
    /**
     *
     */
    apiKey: string;
}


/**
 * @export
 */
export const CloudCredentialLambdaLabsCloudProviderEnum = {
    Lambda: 'Lambda',
} as const;
export type CloudCredentialLambdaLabsCloudProviderEnum = typeof CloudCredentialLambdaLabsCloudProviderEnum[keyof typeof CloudCredentialLambdaLabsCloudProviderEnum];

/**
 *
 * @export
 * @interface Cluster
 */
export interface Cluster {
    /**
     *
     */
    id: string;
    /**
     *
     */
    name: string;
    /**
     * One of `provisioning`, `initializing`, `starting`, `running`, `failed`, `terminated`; later releases may have more.
     */
    state: string;
    /**
     * The management VM's release isn't confirmed yet.
     */
    releasing: boolean;
    /**
     * Where the management VM runs; unset on a hosted API's record of its own cluster.
     */
    cloudProvider: string | null;
    /**
     *
     */
    region: string | null;
    /**
     *
     */
    zone: string | null;
    /**
     *
     */
    vmType: string | null;
    /**
     *
     */
    k3sVersion: string | null;
    /**
     *
     */
    apiVersion: string | null;
    /**
     *
     */
    apiImage: string | null;
    /**
     *
     */
    chartVersion: string | null;
    /**
     * This API can reach the cluster.
     */
    connected: boolean;
    /**
     * UID of the kube-system Namespace.
     */
    kubernetesIdentity: string | null;
    /**
     * Rises each time the stored connection is replaced; 1 from the start.
     */
    connectionRevision: number;
    /**
     *
     */
    activeNodePoolCount: number;
    /**
     * Public address of the management VM.
     */
    address: string | null;
    /**
     *
     */
    managementApiUrl: string | null;
    /**
     * Unset until the API is installed.
     */
    release: ClusterRelease | null;
    /**
     *
     */
    lastError: string | null;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
}
/**
 *
 * @export
 * @interface ClusterRelease
 */
export interface ClusterRelease {
    /**
     *
     */
    apiVersion: string;
    /**
     *
     */
    apiImage: string;
    /**
     *
     */
    chartVersion: string;
}
/**
 *
 * @export
 * @interface ClusterSpec
 */
export interface ClusterSpec {
    /**
     *
     */
    name: string;
    /**
     *
     */
    credentialName: string;
    /**
     *
     */
    region: string;
    /**
     *
     */
    vmType: string;
    /**
     *
     */
    zone?: string;
    /**
     * A bucket of the user's for the API's backups; without it one is made and managed.
     */
    checkpointBucket?: string;
}
/**
 *
 * @export
 * @interface CostReport
 */
export interface CostReport {
    /**
     * From `sinceMs` to now.
     */
    periodMs: number;
    /**
     * Costs are US dollars.
     */
    totalCost: number;
    /**
     *
     */
    totalDurationMs: number;
    /**
     *
     */
    totalJobs: number;
    /**
     *
     */
    totalServices: number;
    /**
     *
     */
    totalVms: number;
    /**
     *
     */
    workloadsWithoutPrice: number;
    /**
     *
     */
    includesOtherUsers: boolean;
    /**
     *
     */
    byAgent: { [key: string]: CostReportShare; };
    /**
     *
     */
    byUser: { [key: string]: CostReportShare; };
    /**
     *
     */
    byProvider: { [key: string]: CostReportProviderShare; };
}
/**
 *
 * @export
 * @interface CostReportProviderShare
 */
export interface CostReportProviderShare {
    /**
     *
     */
    cost: number;
    /**
     *
     */
    durationMs: number;
    /**
     *
     */
    jobs: number;
    /**
     *
     */
    services: number;
    /**
     *
     */
    vms: number;
    /**
     *
     */
    hasSpot: boolean;
}
/**
 *
 * @export
 * @interface CostReportShare
 */
export interface CostReportShare {
    /**
     *
     */
    cost: number;
    /**
     *
     */
    durationMs: number;
    /**
     *
     */
    jobs: number;
    /**
     *
     */
    services: number;
    /**
     *
     */
    vms: number;
}
/**
 *
 * @export
 * @interface CreateClusterAnswer
 */
export interface CreateClusterAnswer {
    /**
     *
     */
    cluster: Cluster;
}
/**
 *
 * @export
 * @interface CreateDeploymentAnswer
 */
export interface CreateDeploymentAnswer {
    /**
     *
     */
    deployment: Deployment;
}
/**
 *
 * @export
 * @interface CreateNodePoolAnswer
 */
export interface CreateNodePoolAnswer {
    /**
     *
     */
    nodePool: NodePool;
}
/**
 *
 * @export
 * @interface CredentialChanges
 */
export interface CredentialChanges {
    /**
     *
     */
    accessKeyId?: string;
    /**
     *
     */
    secretAccessKey?: string;
    /**
     *
     */
    clientEmail?: string;
    /**
     *
     */
    privateKey?: string;
    /**
     *
     */
    projectId?: string;
    /**
     *
     */
    applicationId?: string;
    /**
     *
     */
    directoryId?: string;
    /**
     *
     */
    secret?: string;
    /**
     *
     */
    subscriptionId?: string;
    /**
     *
     */
    apiKey?: string;
    /**
     *
     */
    apiToken?: string;
    /**
     * One of `default`, `eu`, `fedramp`; later releases may have more.
     */
    jurisdiction?: string;
}
/**
 *
 * @export
 * @interface CredentialErrorData
 */
export interface CredentialErrorData {
    /**
     *
     */
    name: string;
}
/**
 *
 * @export
 * @interface CredentialInUseData
 */
export interface CredentialInUseData {
    /**
     *
     */
    name: string;
    /**
     * Ids of what holds the credential, never empty.
     */
    workloadIds: Array<string>;
}
/**
 *
 * @export
 * @interface DatabaseSchema
 */
export interface DatabaseSchema {
    /**
     *
     */
    tables: Array<DatabaseSchemaTable>;
}
/**
 *
 * @export
 * @interface DatabaseSchemaColumn
 */
export interface DatabaseSchemaColumn {
    /**
     *
     */
    name: string;
    /**
     *
     */
    type: string;
    /**
     *
     */
    notNull?: boolean;
    /**
     *
     */
    primaryKey?: boolean;
    /**
     *
     */
    defaultValue?: string;
}
/**
 *
 * @export
 * @interface DatabaseSchemaForeignKey
 */
export interface DatabaseSchemaForeignKey {
    /**
     *
     */
    column: string;
    /**
     *
     */
    references: DatabaseSchemaReferences;
    /**
     *
     */
    onDelete?: string;
    /**
     *
     */
    onUpdate?: string;
}
/**
 *
 * @export
 * @interface DatabaseSchemaIndex
 */
export interface DatabaseSchemaIndex {
    /**
     *
     */
    name: string;
    /**
     *
     */
    unique?: boolean;
}
/**
 *
 * @export
 * @interface DatabaseSchemaReferences
 */
export interface DatabaseSchemaReferences {
    /**
     *
     */
    table: string;
    /**
     *
     */
    column: string;
}
/**
 *
 * @export
 * @interface DatabaseSchemaTable
 */
export interface DatabaseSchemaTable {
    /**
     *
     */
    name: string;
    /**
     * One of `table`, `view`; later releases may have more.
     */
    type: string;
    /**
     *
     */
    columns: Array<DatabaseSchemaColumn>;
    /**
     *
     */
    foreignKeys?: Array<DatabaseSchemaForeignKey>;
    /**
     *
     */
    indexes?: Array<DatabaseSchemaIndex>;
}
/**
 *
 * @export
 * @interface DeleteChannelResponse
 */
export interface DeleteChannelResponse {
    /**
     * There was one.
     */
    removed: boolean;
}
/**
 *
 * @export
 * @interface DeleteDeploymentAnswer
 */
export interface DeleteDeploymentAnswer {
    /**
     *
     */
    deployment: Deployment;
}
/**
 *
 * @export
 * @interface DeleteNodePoolAnswer
 */
export interface DeleteNodePoolAnswer {
    /**
     *
     */
    nodePool: NodePool;
}
/**
 *
 * @export
 * @interface Deployment
 */
export interface Deployment {
    /**
     *
     */
    id: string;
    /**
     *
     */
    name: string;
    /**
     *
     */
    image: string;
    /**
     *
     */
    nodePoolId: string;
    /**
     *
     */
    target: DeploymentTarget;
    /**
     *
     */
    command: Array<string> | null;
    /**
     *
     */
    envKeys: Array<string>;
    /**
     *
     */
    secretNames: Array<string>;
    /**
     *
     */
    readinessProbe: ReadinessProbe | null;
    /**
     *
     */
    replicas: number;
    /**
     *
     */
    maxConcurrentJobsPerReplica: number;
    /**
     *
     */
    gpuCount: number;
    /**
     * The requested revision; 1 is the create.
     */
    generation: number;
    /**
     *
     */
    jobs: DeploymentJobs;
    /**
     * Set by GetDeployment only.
     */
    status: DeploymentStatus | null;
    /**
     *
     */
    workload: DeploymentWorkload | null;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
    /**
     *
     */
    deletedAt: number | null;
    /**
     *
     */
    deletionRequestedAt: number | null;
}
/**
 *
 * @export
 * @interface DeploymentJobs
 */
export interface DeploymentJobs {
    /**
     *
     */
    queued: number;
    /**
     *
     */
    running: number;
    /**
     *
     */
    retrying: number;
    /**
     *
     */
    terminal: number;
    /**
     * Jobs that hold a slot, cleaning up included.
     */
    unreleased: number;
}
/**
 *
 * @export
 * @interface DeploymentSpec
 */
export interface DeploymentSpec {
    /**
     *
     */
    name: string;
    /**
     *
     */
    image: string;
    /**
     * Id or name.
     */
    nodePool: string;
    /**
     *
     */
    command?: Array<string>;
    /**
     *
     */
    env?: { [key: string]: string; };
    /**
     * Names of saved Secrets; for a key found in two of them, the later name decides.
     */
    secrets?: Array<string>;
    /**
     *
     */
    dockerOptions?: DockerOptions;
    /**
     *
     */
    readinessProbe?: ReadinessProbe | null;
    /**
     *
     */
    replicas?: number;
    /**
     *
     */
    maxConcurrentJobsPerReplica?: number;
}
/**
 *
 * @export
 * @interface DeploymentStatus
 */
export interface DeploymentStatus {
    /**
     * One of `starting`, `running`, `failed`, `terminated`, `unknown`; later releases may have more.
     */
    state: string;
    /**
     *
     */
    releasing: boolean;
    /**
     *
     */
    ready: boolean;
    /**
     *
     */
    reason: string;
    /**
     * One of `observed`, `unavailable`, `not-requested`; later releases may have more.
     */
    observation: string;
    /**
     *
     */
    observationError: string | null;
    /**
     *
     */
    observedAt: number | null;
    /**
     *
     */
    requestedGeneration: number;
    /**
     *
     */
    appliedGeneration: number | null;
    /**
     *
     */
    podGeneration: number | null;
    /**
     *
     */
    podName: string | null;
    /**
     *
     */
    podUid: string | null;
    /**
     *
     */
    containerId: string | null;
    /**
     *
     */
    containerReady: boolean | null;
    /**
     *
     */
    applicationReady: boolean | null;
    /**
     *
     */
    probeConfigured: boolean | null;
    /**
     *
     */
    readyReplicas: number | null;
    /**
     *
     */
    blockingJobs: DeploymentStatusBlockingJobs;
    /**
     *
     */
    upgrade: DeploymentStatusUpgrade | null;
}
/**
 *
 * @export
 * @interface DeploymentStatusBlockingJobs
 */
export interface DeploymentStatusBlockingJobs {
    /**
     *
     */
    total: number;
    /**
     * At most ten.
     */
    jobs: Array<DeploymentStatusJob>;
}
/**
 *
 * @export
 * @interface DeploymentStatusJob
 */
export interface DeploymentStatusJob {
    /**
     *
     */
    id: string;
    /**
     * One of `queued`, `provisioning`, `initializing`, `downloading`, `starting`, `syncing`, `retrying`, `recovering`, `running`, `finalizing`, `completed`, `failed`, `errored`, `invalid`, `terminated`; later releases may have more.
     */
    state: string;
    /**
     *
     */
    executionId: string | null;
    /**
     *
     */
    generation: number | null;
}
/**
 *
 * @export
 * @interface DeploymentStatusUpgrade
 */
export interface DeploymentStatusUpgrade {
    /**
     * Revision less one.
     */
    number: number;
    /**
     * One of `starting`, `running`, `failed`; later releases may have more.
     */
    state: string;
}
/**
 *
 * @export
 * @interface DeploymentTarget
 */
export interface DeploymentTarget {
    /**
     * One of `nodePool`; later releases may have more.
     */
    kind: string;
    /**
     *
     */
    nodePoolId: string;
}
/**
 *
 * @export
 * @interface DeploymentUpdate
 */
export interface DeploymentUpdate {
    /**
     *
     */
    image?: string;
    /**
     *
     */
    command?: Array<string> | null;
    /**
     *
     */
    env?: { [key: string]: string; } | null;
    /**
     *
     */
    secrets?: Array<string> | null;
    /**
     *
     */
    dockerOptions?: DockerOptionsUpdate | null;
    /**
     *
     */
    readinessProbe?: ReadinessProbe | null;
    /**
     *
     */
    replicas?: number;
    /**
     *
     */
    maxConcurrentJobsPerReplica?: number;
}
/**
 *
 * @export
 * @interface DeploymentWorkload
 */
export interface DeploymentWorkload {
    /**
     *
     */
    containerId: string | null;
    /**
     *
     */
    containerReady: boolean;
    /**
     *
     */
    observedGeneration: number | null;
    /**
     *
     */
    pendingReason: string | null;
    /**
     *
     */
    podName: string | null;
    /**
     *
     */
    podUid: string | null;
}
/**
 *
 * @export
 * @interface DestroyClusterAnswer
 */
export interface DestroyClusterAnswer {
    /**
     *
     */
    cluster: Cluster;
}
/**
 *
 * @export
 * @interface DockerOptions
 */
export interface DockerOptions {
    /**
     * Paths that get a disposable volume each.
     */
    binds?: Array<string>;
    /**
     *
     */
    cpus?: string;
    /**
     * "all", or a positive whole number.
     */
    gpus?: string;
    /**
     *
     */
    ipc?: string;
    /**
     *
     */
    memory?: string;
    /**
     *
     */
    network?: string;
    /**
     *
     */
    privileged?: boolean;
    /**
     *
     */
    runtime?: string;
    /**
     *
     */
    shmSize?: string;
    /**
     *
     */
    ulimits?: Array<string>;
}
/**
 *
 * @export
 * @interface DockerOptionsUpdate
 */
export interface DockerOptionsUpdate {
    /**
     *
     */
    binds?: Array<string> | null;
    /**
     *
     */
    cpus?: string | null;
    /**
     *
     */
    gpus?: string | null;
    /**
     *
     */
    memory?: string | null;
    /**
     *
     */
    privileged?: boolean | null;
    /**
     *
     */
    runtime?: string | null;
    /**
     *
     */
    shmSize?: string | null;
}
/**
 *
 * @export
 * @interface ForgetClusterResponse
 */
export interface ForgetClusterResponse {
    /**
     *
     */
    id: string;
    /**
     *
     */
    name: string;
    /**
     * What is left in the cloud on purpose, one sentence each.
     */
    leftovers: Array<string>;
}
/**
 *
 * @export
 * @interface GetClusterAnswer
 */
export interface GetClusterAnswer {
    /**
     *
     */
    cluster: Cluster;
}
/**
 *
 * @export
 * @interface GetDeploymentAnswer
 */
export interface GetDeploymentAnswer {
    /**
     *
     */
    deployment: Deployment;
}
/**
 *
 * @export
 * @interface GetNodePoolAnswer
 */
export interface GetNodePoolAnswer {
    /**
     *
     */
    nodePool: NodePool;
}
/**
 *
 * @export
 * @interface GetSshAccessResponse
 */
export interface GetSshAccessResponse {
    /**
     *
     */
    workloadId: string;
    /**
     *
     */
    vmIp: string;
    /**
     * PEM.
     */
    sshPrivateKey: string;
    /**
     *
     */
    sshHost?: string;
    /**
     *
     */
    sshPort?: number;
    /**
     *
     */
    sshUsername?: string;
}
/**
 *
 * @export
 * @interface GetWorkloadCostResponseRow
 */
export interface GetWorkloadCostResponseRow {
    /**
     *
     */
    id: string;
    /**
     * One of `job`, `service`, `vm`; later releases may have more.
     */
    workloadType: string;
    /**
     *
     */
    agent: string | null;
    /**
     *
     */
    image: string | null;
    /**
     * One of `AWS`, `GCP`, `Azure`, `Lambda`, `Cloudflare`, `Local`; later releases may have more.
     */
    cloudProvider: string | null;
    /**
     *
     */
    region: string | null;
    /**
     *
     */
    vmType: StringOrList | null;
    /**
     *
     */
    spot: boolean;
    /**
     * One of `actual`, `estimated`; later releases may have more.
     */
    costSource: string | null;
    /**
     * US dollars.
     */
    totalCost: number | null;
    /**
     *
     */
    vmDurationMs: number | null;
    /**
     *
     */
    awaitingReleaseMs: number | null;
}
/**
 *
 * @export
 * @interface Grant
 */
export interface Grant {
    /**
     *
     */
    username: string;
}
/**
 *
 * @export
 * @interface JobCandidate
 */
export interface JobCandidate {
    /**
     *
     */
    jobId: string;
    /**
     *
     */
    submissionRevision: number;
    /**
     *
     */
    previousExecutionId: string | null;
}
/**
 *
 * @export
 * @interface JobClaim
 */
export interface JobClaim {
    /**
     *
     */
    submissionRevision: number;
    /**
     *
     */
    previousExecutionId: string | null;
}
/**
 *
 * @export
 * @interface JobCleanup
 */
export interface JobCleanup {
    /**
     *
     */
    executionId: string;
}
/**
 *
 * @export
 * @interface ListBudgetsResponse
 */
export interface ListBudgetsResponse {
    /**
     *
     */
    entries: Array<ListBudgetsResponseBudget>;
    /**
     * What was spent so far in the running period of each budget.
     */
    spend: Array<ListBudgetsResponseSpent>;
}
/**
 *
 * @export
 * @interface ListBudgetsResponseBudget
 */
export interface ListBudgetsResponseBudget {
    /**
     * One of `day`, `week`, `month`; later releases may have more.
     */
    period: string;
    /**
     * One of `account`, `agent-session`; later releases may have more.
     */
    scope: string;
    /**
     *
     */
    capUsd: number;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
}
/**
 *
 * @export
 * @interface ListBudgetsResponseSessionSpent
 */
export interface ListBudgetsResponseSessionSpent {
    /**
     *
     */
    session: string;
    /**
     *
     */
    sessionLabel: string | null;
    /**
     *
     */
    agent: string | null;
    /**
     *
     */
    user: string | null;
    /**
     *
     */
    actualUsd: number;
    /**
     *
     */
    estimatedUsd: number;
    /**
     *
     */
    totalUsd: number;
}
/**
 *
 * @export
 * @interface ListBudgetsResponseSpent
 */
export interface ListBudgetsResponseSpent {
    /**
     * One of `day`, `week`, `month`; later releases may have more.
     */
    period: string;
    /**
     * One of `account`, `agent-session`; later releases may have more.
     */
    scope: string;
    /**
     *
     */
    startMs: number;
    /**
     *
     */
    endMs: number;
    /**
     *
     */
    actualUsd: number;
    /**
     *
     */
    estimatedUsd: number;
    /**
     *
     */
    totalUsd: number;
    /**
     *
     */
    agentSessionCount?: number;
    /**
     *
     */
    sessions?: Array<ListBudgetsResponseSessionSpent>;
}
/**
 *
 * @export
 * @interface ListChannelsResponseEntry
 */
export interface ListChannelsResponseEntry {
    /**
     * One of `slack`; later releases may have more.
     */
    channel: string;
    /**
     *
     */
    webhook: string;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
}
/**
 *
 * @export
 * @interface ListClustersAnswer
 */
export interface ListClustersAnswer {
    /**
     *
     */
    clusters: Array<Cluster>;
}
/**
 *
 * @export
 * @interface ListDeploymentsAnswer
 */
export interface ListDeploymentsAnswer {
    /**
     *
     */
    deployments: Array<Deployment>;
}
/**
 *
 * @export
 * @interface ListNodePoolsAnswer
 */
export interface ListNodePoolsAnswer {
    /**
     *
     */
    nodePools: Array<NodePool>;
}
/**
 *
 * @export
 * @interface ListThrottlesResponse
 */
export interface ListThrottlesResponse {
    /**
     *
     */
    entries: Array<ListThrottlesResponseThrottle>;
    /**
     *
     */
    burnRate: ListThrottlesResponseBurnRate;
}
/**
 *
 * @export
 * @interface ListThrottlesResponseAccount
 */
export interface ListThrottlesResponseAccount {
    /**
     *
     */
    currentUsd: number;
}
/**
 * What is being spent now, in US dollars.
 * @export
 * @interface ListThrottlesResponseBurnRate
 */
export interface ListThrottlesResponseBurnRate {
    /**
     *
     */
    account: ListThrottlesResponseAccount;
    /**
     *
     */
    sessions?: Array<ListThrottlesResponseSession>;
}
/**
 *
 * @export
 * @interface ListThrottlesResponseSession
 */
export interface ListThrottlesResponseSession {
    /**
     *
     */
    session: string;
    /**
     *
     */
    sessionLabel: string | null;
    /**
     *
     */
    agent: string | null;
    /**
     *
     */
    user: string | null;
    /**
     *
     */
    rateUsd: number;
}
/**
 *
 * @export
 * @interface ListThrottlesResponseThrottle
 */
export interface ListThrottlesResponseThrottle {
    /**
     * One of `account`, `agent-session`; later releases may have more.
     */
    scope: string;
    /**
     *
     */
    capUsd: number;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
}
/**
 *
 * @export
 * @interface ListUsersResponse
 */
export interface ListUsersResponse {
    /**
     *
     */
    owner: User;
    /**
     *
     */
    users: Array<User>;
}

/**
 *
 * @export
 */
export const ListWorkloadsRequestStateClass = {
    Active: 'active',
    Terminal: 'terminal',
} as const;
export type ListWorkloadsRequestStateClass = typeof ListWorkloadsRequestStateClass[keyof typeof ListWorkloadsRequestStateClass];

/**
 *
 * @export
 * @interface ListedWorkload
 */
export interface ListedWorkload {
    /**
     *
     */
    id: string;
    /**
     * One of `queued`, `provisioning`, `initializing`, `downloading`, `starting`, `syncing`, `retrying`, `recovering`, `running`, `finalizing`, `completed`, `failed`, `errored`, `invalid`, `terminated`; later releases may have more.
     */
    state: string;
    /**
     * One of `job`, `service`, `vm`; later releases may have more.
     */
    workloadType: string;
    /**
     *
     */
    submissionRevision: number;
    /**
     *
     */
    claimed: boolean;
    /**
     *
     */
    claimDeadlineAt: number | null;
    /**
     *
     */
    deploymentId: string | null;
    /**
     *
     */
    nodePoolId?: string;
    /**
     *
     */
    nodePoolName?: string;
    /**
     *
     */
    userId: string;
    /**
     *
     */
    session: string | null;
    /**
     *
     */
    sessionLabel: string | null;
    /**
     *
     */
    agent: string | null;
    /**
     * When the record was made.
     */
    startedAt: number;
    /**
     *
     */
    completedAt: number | null;
    /**
     *
     */
    cleanedAt?: number;
    /**
     *
     */
    cleanupError?: string;
    /**
     * Container configuration; unset for a Job that targets a Deployment.
     */
    image: string | null;
    /**
     *
     */
    imageDigest: string | null;
    /**
     *
     */
    command: Array<string> | null;
    /**
     *
     */
    dockerCommand: string;
    /**
     *
     */
    dockerOptions: DockerOptions | null;
    /**
     *
     */
    secretNames: Array<string> | null;
    /**
     * VM placement; unset for what runs on a node pool.
     */
    cloudProvider: string | null;
    /**
     *
     */
    region: string | null;
    /**
     *
     */
    availabilityZone: string | null;
    /**
     *
     */
    vmType: StringOrList | null;
    /**
     *
     */
    gpuType: StringOrList | null;
    /**
     *
     */
    spot: boolean;
    /**
     *
     */
    vmCount: number;
    /**
     *
     */
    diskSizeGb: number | null;
    /**
     * One of `medium`, `high`, `ultra`; later releases may have more.
     */
    diskTier: string | null;
    /**
     *
     */
    inputBucket: string | null;
    /**
     *
     */
    inputStorageRegion: string | null;
    /**
     *
     */
    outputBucket: string | null;
    /**
     *
     */
    outputStorageRegion: string | null;
    /**
     *
     */
    checkpointBucket: string | null;
    /**
     *
     */
    checkpointStorageRegion: string | null;
    /**
     * Cost; unset for what has no VM of its own.
     */
    costSource: string | null;
    /**
     *
     */
    totalCost: number | null;
    /**
     *
     */
    vmDurationMs: number | null;
    /**
     *
     */
    awaitingReleaseMs: number | null;
    /**
     *
     */
    dnsRecordId: string | null;
    /**
     *
     */
    publicEndpoint: WorkloadPublicEndpoint | null;
    /**
     *
     */
    version: string | null;
    /**
     *
     */
    credentialId: string | null;
    /**
     *
     */
    checkpointStorageCredentialId: string | null;
    /**
     *
     */
    inputStorageCredentialId: string | null;
    /**
     *
     */
    outputStorageCredentialId: string | null;
    /**
     * One of `cuda`, `rocm`, `unknown`; later releases may have more.
     */
    imageRuntime: string | null;
    /**
     *
     */
    isOwnedByCaller: boolean;
    /**
     *
     */
    latestMessage: string | null;
}
/**
 *
 * @export
 * @interface LogLine
 */
export interface LogLine {
    /**
     *
     */
    text: string;
    /**
     *
     */
    podName: string;
    /**
     *
     */
    previous: boolean;
}
/**
 *
 * @export
 * @interface Message
 */
export interface Message {
    /**
     *
     */
    message: string;
}
/**
 *
 * @export
 * @interface NodePool
 */
export interface NodePool {
    /**
     *
     */
    id: string;
    /**
     *
     */
    name: string;
    /**
     *
     */
    clusterId: string;
    /**
     * One of `provisioning`, `running`, `failed`, `terminated`; later releases may have more.
     */
    state: string;
    /**
     * Deletion was asked for and isn't confirmed complete.
     */
    releasing: boolean;
    /**
     * One of `AWS`, `GCP`, `Azure`, `Lambda`, `Cloudflare`, `Local`; later releases may have more.
     */
    cloudProvider: string;
    /**
     *
     */
    region: string | null;
    /**
     *
     */
    zone: string | null;
    /**
     *
     */
    vmTypes: Array<string>;
    /**
     *
     */
    minVmCount: number;
    /**
     *
     */
    maxVmCount: number;
    /**
     *
     */
    capacity: NodePoolCapacity;
    /**
     * Deployments and Workloads that target the pool.
     */
    liveReferences: number;
    /**
     *
     */
    lastError: string | null;
    /**
     *
     */
    ingressEntryIp: string | null;
    /**
     *
     */
    ingress: NodePoolIngress;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
}
/**
 *
 * @export
 * @interface NodePoolCapacity
 */
export interface NodePoolCapacity {
    /**
     *
     */
    readyVmCount: number;
    /**
     *
     */
    startingVmCount: number;
    /**
     *
     */
    drainingVmCount: number;
    /**
     *
     */
    locations: Array<NodePoolLocation>;
}
/**
 *
 * @export
 * @interface NodePoolIngress
 */
export interface NodePoolIngress {
    /**
     *
     */
    entryIp: string | null;
    /**
     * Unset for a pool that never hosted a Service.
     */
    release: NodePoolIngressRelease | null;
}
/**
 *
 * @export
 * @interface NodePoolIngressRelease
 */
export interface NodePoolIngressRelease {
    /**
     * One of `absent`, `installing`, `installed`, `failed`; later releases may have more.
     */
    state: string;
    /**
     *
     */
    helmJob: NodePoolIngressReleaseHelmJob | null;
    /**
     *
     */
    daemonSet: NodePoolIngressReleaseDaemonSet | null;
    /**
     *
     */
    lastEvent: string | null;
    /**
     *
     */
    routes: number;
}
/**
 *
 * @export
 * @interface NodePoolIngressReleaseDaemonSet
 */
export interface NodePoolIngressReleaseDaemonSet {
    /**
     *
     */
    desired: number;
    /**
     *
     */
    ready: number;
    /**
     *
     */
    entryNodeReady: boolean;
}
/**
 *
 * @export
 * @interface NodePoolIngressReleaseHelmJob
 */
export interface NodePoolIngressReleaseHelmJob {
    /**
     *
     */
    phase: string;
    /**
     *
     */
    message: string | null;
}
/**
 *
 * @export
 * @interface NodePoolLocation
 */
export interface NodePoolLocation {
    /**
     *
     */
    region: string;
    /**
     *
     */
    zone: string | null;
    /**
     *
     */
    vmType: string;
}
/**
 *
 * @export
 * @interface NodePoolSpec
 */
export interface NodePoolSpec {
    /**
     *
     */
    name: string;
    /**
     *
     */
    cluster?: string;
    /**
     *
     */
    credentialName: string;
    /**
     *
     */
    region?: string;
    /**
     *
     */
    zone?: string;
    /**
     *
     */
    vmTypes: Array<string>;
    /**
     *
     */
    minVmCount: number;
    /**
     *
     */
    maxVmCount: number;
}
/**
 *
 * @export
 * @interface ObjectPage
 */
export interface ObjectPage {
    /**
     *
     */
    entries: Array<ObjectPageEntry>;
    /**
     * Unset on the last page.
     */
    nextCursor: string | null;
}
/**
 * @type ObjectPageEntry
 *
 * @export
 */
export type ObjectPageEntry = { kind: 'object' } & ObjectPageEntryObject | { kind: 'prefix' } & ObjectPageEntryPrefix;
/**
 *
 * @export
 * @interface ObjectPageEntryObject
 */
export interface ObjectPageEntryObject {
    /**
     *
     */
    kind: ObjectPageEntryObjectKindEnum;
    /**
     *
     */
    key: string;
    /**
     *
     */
    sizeBytes: number | null;
    /**
     *
     */
    lastModifiedAt: number | null;
}


/**
 * @export
 */
export const ObjectPageEntryObjectKindEnum = {
    Object: 'object',
} as const;
export type ObjectPageEntryObjectKindEnum = typeof ObjectPageEntryObjectKindEnum[keyof typeof ObjectPageEntryObjectKindEnum];

/**
 *
 * @export
 * @interface ObjectPageEntryPrefix
 */
export interface ObjectPageEntryPrefix {
    /**
     *
     */
    kind: ObjectPageEntryPrefixKindEnum;
    /**
     *
     */
    key: string;
}


/**
 * @export
 */
export const ObjectPageEntryPrefixKindEnum = {
    Prefix: 'prefix',
} as const;
export type ObjectPageEntryPrefixKindEnum = typeof ObjectPageEntryPrefixKindEnum[keyof typeof ObjectPageEntryPrefixKindEnum];

/**
 *
 * @export
 * @interface ObservationSpec
 */
export interface ObservationSpec {
    /**
     *
     */
    submissionRevision: number;
    /**
     *
     */
    waitMs?: number;
}
/**
 *
 * @export
 * @interface OutcomeReport
 */
export interface OutcomeReport {
    /**
     *
     */
    executionId: string;
    /**
     *
     */
    outcome: OutcomeReportOutcome;
    /**
     *
     */
    message?: string;
}



/**
 *
 * @export
 */
export const OutcomeReportOutcome = {
    Completed: 'completed',
    Errored: 'errored',
    Invalid: 'invalid',
    Retryable: 'retryable',
} as const;
export type OutcomeReportOutcome = typeof OutcomeReportOutcome[keyof typeof OutcomeReportOutcome];

/**
 *
 * @export
 * @interface Query
 */
export interface Query {
    /**
     *
     */
    sql: string;
}
/**
 *
 * @export
 * @interface QueryResult
 */
export interface QueryResult {
    /**
     *
     */
    rows: Array<{ [key: string]: any; }>;
    /**
     *
     */
    rowCount: number;
    /**
     * More rows matched than are answered.
     */
    truncated: boolean;
}
/**
 *
 * @export
 * @interface QuotaStatus
 */
export interface QuotaStatus {
    /**
     *
     */
    entries: Array<QuotaStatusEntry>;
}
/**
 *
 * @export
 * @interface QuotaStatusEntry
 */
export interface QuotaStatusEntry {
    /**
     * One of `AWS`, `GCP`, `Azure`, `Lambda`, `Cloudflare`, `Local`; later releases may have more.
     */
    cloud: string;
    /**
     *
     */
    region: string;
    /**
     *
     */
    resourceName: string;
    /**
     * In the cloud's own words.
     */
    status: string;
    /**
     * One of `request`, `current`, `unavailable`; later releases may have more.
     */
    kind?: string;
    /**
     * One of `local_operation`; later releases may have more.
     */
    source?: string;
    /**
     *
     */
    resourceKey?: string;
    /**
     *
     */
    vmType?: string;
    /**
     *
     */
    spot?: boolean;
    /**
     *
     */
    currentLimit?: number;
    /**
     *
     */
    previousLimit?: number;
    /**
     *
     */
    requestedLimit?: number;
    /**
     *
     */
    grantedLimit?: number;
    /**
     * As the cloud writes it.
     */
    requestedAt?: string;
    /**
     *
     */
    requestId?: string;
    /**
     *
     */
    providerRequestId?: string;
    /**
     *
     */
    providerCaseId?: string;
    /**
     *
     */
    operationId?: string;
    /**
     *
     */
    operationTargetId?: string;
    /**
     *
     */
    url?: string;
    /**
     *
     */
    message?: string;
}
/**
 * A Kubernetes exec probe. Timings that are unset take the Kubernetes defaults.
 * @export
 * @interface ReadinessProbe
 */
export interface ReadinessProbe {
    /**
     *
     */
    exec: ReadinessProbeExec;
    /**
     *
     */
    initialDelaySeconds?: number;
    /**
     *
     */
    periodSeconds?: number;
    /**
     *
     */
    timeoutSeconds?: number;
    /**
     *
     */
    successThreshold?: number;
    /**
     *
     */
    failureThreshold?: number;
}
/**
 *
 * @export
 * @interface ReadinessProbeExec
 */
export interface ReadinessProbeExec {
    /**
     * Run directly, without a shell.
     */
    command: Array<string>;
}
/**
 * @type RedactedCredential
 *
 * @export
 */
export type RedactedCredential = { cloudProvider: 'AWS' } & RedactedCredentialAws | { cloudProvider: 'Azure' } & RedactedCredentialAzure | { cloudProvider: 'Cloudflare' } & RedactedCredentialCloudflare | { cloudProvider: 'GCP' } & RedactedCredentialGcp | { cloudProvider: 'Lambda' } & RedactedCredentialLambdaLabs;
/**
 *
 * @export
 * @interface RedactedCredentialAws
 */
export interface RedactedCredentialAws {
    /**
     *
     */
    cloudProvider: RedactedCredentialAwsCloudProviderEnum;
    /**
     *
     */
    name: string;
    /**
     * When the cloud last refused it.
     */
    authFailedAt?: number;
    /**
     *
     */
    accessKeyId?: string;
}


/**
 * @export
 */
export const RedactedCredentialAwsCloudProviderEnum = {
    Aws: 'AWS',
} as const;
export type RedactedCredentialAwsCloudProviderEnum = typeof RedactedCredentialAwsCloudProviderEnum[keyof typeof RedactedCredentialAwsCloudProviderEnum];

/**
 *
 * @export
 * @interface RedactedCredentialAzure
 */
export interface RedactedCredentialAzure {
    /**
     *
     */
    cloudProvider: RedactedCredentialAzureCloudProviderEnum;
    /**
     *
     */
    name: string;
    /**
     * When the cloud last refused it.
     */
    authFailedAt?: number;
    /**
     *
     */
    applicationId?: string;
    /**
     *
     */
    subscriptionId?: string;
}


/**
 * @export
 */
export const RedactedCredentialAzureCloudProviderEnum = {
    Azure: 'Azure',
} as const;
export type RedactedCredentialAzureCloudProviderEnum = typeof RedactedCredentialAzureCloudProviderEnum[keyof typeof RedactedCredentialAzureCloudProviderEnum];

/**
 *
 * @export
 * @interface RedactedCredentialCloudflare
 */
export interface RedactedCredentialCloudflare {
    /**
     *
     */
    cloudProvider: RedactedCredentialCloudflareCloudProviderEnum;
    /**
     *
     */
    name: string;
    /**
     * When the cloud last refused it.
     */
    authFailedAt?: number;
    /**
     *
     */
    accountId?: string;
    /**
     * One of `default`, `eu`, `fedramp`; later releases may have more.
     */
    jurisdiction?: string;
}


/**
 * @export
 */
export const RedactedCredentialCloudflareCloudProviderEnum = {
    Cloudflare: 'Cloudflare',
} as const;
export type RedactedCredentialCloudflareCloudProviderEnum = typeof RedactedCredentialCloudflareCloudProviderEnum[keyof typeof RedactedCredentialCloudflareCloudProviderEnum];

/**
 *
 * @export
 * @interface RedactedCredentialGcp
 */
export interface RedactedCredentialGcp {
    /**
     *
     */
    cloudProvider: RedactedCredentialGcpCloudProviderEnum;
    /**
     *
     */
    name: string;
    /**
     * When the cloud last refused it.
     */
    authFailedAt?: number;
    /**
     *
     */
    clientEmail?: string;
    /**
     *
     */
    projectId?: string;
}


/**
 * @export
 */
export const RedactedCredentialGcpCloudProviderEnum = {
    Gcp: 'GCP',
} as const;
export type RedactedCredentialGcpCloudProviderEnum = typeof RedactedCredentialGcpCloudProviderEnum[keyof typeof RedactedCredentialGcpCloudProviderEnum];

/**
 *
 * @export
 * @interface RedactedCredentialLambdaLabs
 */
export interface RedactedCredentialLambdaLabs {
    /**
     *
     */
    cloudProvider: RedactedCredentialLambdaLabsCloudProviderEnum;
    /**
     *
     */
    name: string;
    /**
     * When the cloud last refused it.
     */
    authFailedAt?: number;
}


/**
 * @export
 */
export const RedactedCredentialLambdaLabsCloudProviderEnum = {
    Lambda: 'Lambda',
} as const;
export type RedactedCredentialLambdaLabsCloudProviderEnum = typeof RedactedCredentialLambdaLabsCloudProviderEnum[keyof typeof RedactedCredentialLambdaLabsCloudProviderEnum];

/**
 *
 * @export
 * @interface ReleaseStatus
 */
export interface ReleaseStatus {
    /**
     *
     */
    servedVersion: string;
    /**
     *
     */
    schemaVersion: string | null;
    /**
     * The newest upgrade.
     */
    upgrade: ReleaseStatusUpgrade | null;
    /**
     *
     */
    rollout: ReleaseStatusRollout | null;
}
/**
 *
 * @export
 * @interface ReleaseStatusCondition
 */
export interface ReleaseStatusCondition {
    /**
     *
     */
    type: string;
    /**
     *
     */
    status: string;
    /**
     *
     */
    reason: string | null;
    /**
     *
     */
    message: string | null;
}
/**
 * The API's own Kubernetes Deployment.
 * @export
 * @interface ReleaseStatusRollout
 */
export interface ReleaseStatusRollout {
    /**
     *
     */
    replicas: number;
    /**
     *
     */
    readyReplicas: number;
    /**
     *
     */
    updatedReplicas: number;
    /**
     *
     */
    observedGeneration: number | null;
    /**
     *
     */
    conditions: Array<ReleaseStatusCondition>;
}
/**
 *
 * @export
 * @interface ReleaseStatusUpgrade
 */
export interface ReleaseStatusUpgrade {
    /**
     *
     */
    number: number;
    /**
     * One of `starting`, `running`, `failed`; later releases may have more.
     */
    state: string;
    /**
     *
     */
    apiVersion: string;
    /**
     *
     */
    apiImage: string;
    /**
     *
     */
    lastError: string | null;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
}
/**
 *
 * @export
 * @interface ReleaseTarget
 */
export interface ReleaseTarget {
    /**
     * The API's published image, by tag or digest.
     */
    image: string;
}
/**
 *
 * @export
 * @interface RequestSystemReleaseResponse
 */
export interface RequestSystemReleaseResponse {
    /**
     * The API runs that image already.
     */
    unchanged: boolean;
    /**
     *
     */
    upgrade: ReleaseStatusUpgrade | null;
}
/**
 *
 * @export
 * @interface Resubmission
 */
export interface Resubmission {
    /**
     *
     */
    message: string;
    /**
     *
     */
    submissionRevision?: number;
    /**
     *
     */
    claimDeadlineAt: number | null;
}
/**
 *
 * @export
 * @interface ResubmissionSpec
 */
export interface ResubmissionSpec {
    /**
     *
     */
    session?: string;
    /**
     * Seconds from admission to the first claim; unset clears an earlier deadline.
     */
    timeout?: number;
}
/**
 *
 * @export
 * @interface Secret
 */
export interface Secret {
    /**
     *
     */
    name: string;
    /**
     *
     */
    createdAt: number;
    /**
     *
     */
    updatedAt: number;
}
/**
 *
 * @export
 * @interface SecretInUseData
 */
export interface SecretInUseData {
    /**
     *
     */
    name: string;
    /**
     * Ids of what references the Secret, never empty.
     */
    workloadIds: Array<string>;
}
/**
 *
 * @export
 * @interface SecretValues
 */
export interface SecretValues {
    /**
     *
     */
    values: { [key: string]: string; };
}
/**
 *
 * @export
 * @interface SelectedJob
 */
export interface SelectedJob {
    /**
     *
     */
    jobId: string;
    /**
     *
     */
    executionId: string;
}
/**
 *
 * @export
 * @interface ServiceUpgrade
 */
export interface ServiceUpgrade {
    /**
     *
     */
    image: string;
    /**
     * What is unset stays as it was.
     */
    command?: Array<string>;
    /**
     *
     */
    env?: { [key: string]: string; };
    /**
     *
     */
    binds?: Array<string>;
}
/**
 *
 * @export
 * @interface SpendCap
 */
export interface SpendCap {
    /**
     * US dollars.
     */
    capUsd: number;
}
/**
 * @type StringOrList
 *
 * @export
 */
export type StringOrList = Array<string> | string;
/**
 *
 * @export
 * @interface SubmissionObservation
 */
export interface SubmissionObservation {
    /**
     * One of `pending`, `claimed`, `expired`, `terminated`, `changed`; later releases may have more.
     */
    outcome: string;
    /**
     *
     */
    claimed: boolean;
    /**
     *
     */
    submissionRevision: number;
    /**
     *
     */
    claimDeadlineAt: number | null;
}
/**
 * @type SubmitWorkloadRequest
 *
 * @export
 */
export type SubmitWorkloadRequest = SubmitWorkloadRequestDeploymentTarget | SubmitWorkloadRequestImageTarget;
/**
 *
 * @export
 * @interface SubmitWorkloadRequestCloudConfig
 */
export interface SubmitWorkloadRequestCloudConfig {
    /**
     * One of `AWS`, `GCP`, `Azure`, `Lambda`, `Cloudflare`, `Local`; later releases may have more.
     */
    cloudProvider?: string;
    /**
     *
     */
    region?: string;
    /**
     *
     */
    availabilityZone?: string;
    /**
     *
     */
    vmType?: StringOrList;
    /**
     *
     */
    spot?: boolean;
    /**
     *
     */
    diskSizeGb?: number;
    /**
     * One of `medium`, `high`, `ultra`; later releases may have more.
     */
    diskTier?: string;
    /**
     *
     */
    minVmCount?: number;
    /**
     *
     */
    maxVmCount?: number;
    /**
     *
     */
    inputBucket?: string;
    /**
     *
     */
    inputStorageRegion?: string;
    /**
     *
     */
    outputBucket?: string;
    /**
     *
     */
    outputStorageRegion?: string;
    /**
     *
     */
    checkpointBucket?: string;
    /**
     *
     */
    checkpointStorageRegion?: string;
    /**
     *
     */
    inputStorageCredentials?: CloudCredential;
    /**
     *
     */
    outputStorageCredentials?: CloudCredential;
    /**
     *
     */
    checkpointStorageCredentials?: CloudCredential;
}
/**
 *
 * @export
 * @interface SubmitWorkloadRequestDeploymentTarget
 */
export interface SubmitWorkloadRequestDeploymentTarget {
    /**
     * Chosen by the caller, so that a repeated submission is recognised.
     */
    id?: string;
    /**
     * One of `job`, `service`, `vm`; later releases may have more.
     */
    workloadType?: string;
    /**
     *
     */
    session?: string;
    /**
     *
     */
    sessionLabel?: string;
    /**
     *
     */
    agent?: string;
    /**
     *
     */
    gpusPerNode?: number;
    /**
     *
     */
    launch?: SubmitWorkloadRequestLaunch;
    /**
     *
     */
    mounts?: Array<SubmitWorkloadRequestMount>;
    /**
     *
     */
    nodes?: number;
    /**
     *
     */
    resumable?: boolean;
    /**
     *
     */
    timeLimit?: number;
    /**
     * Id or active name.
     */
    deployment: string;
    /**
     * Seconds from admission to the first claim.
     */
    timeout?: number;
}


/**
 *
 * @export
 * @interface SubmitWorkloadRequestImageTarget
 */
export interface SubmitWorkloadRequestImageTarget {
    /**
     * Chosen by the caller, so that a repeated submission is recognised.
     */
    id?: string;
    /**
     * One of `job`, `service`, `vm`; later releases may have more.
     */
    workloadType?: string;
    /**
     *
     */
    session?: string;
    /**
     *
     */
    sessionLabel?: string;
    /**
     *
     */
    agent?: string;
    /**
     *
     */
    gpusPerNode?: number;
    /**
     *
     */
    launch?: SubmitWorkloadRequestLaunch;
    /**
     *
     */
    mounts?: Array<SubmitWorkloadRequestMount>;
    /**
     *
     */
    nodes?: number;
    /**
     *
     */
    resumable?: boolean;
    /**
     *
     */
    timeLimit?: number;
    /**
     *
     */
    image: string;
    /**
     *
     */
    cloudConfig: SubmitWorkloadRequestCloudConfig;
    /**
     *
     */
    command?: Array<string>;
    /**
     *
     */
    env?: { [key: string]: string; };
    /**
     *
     */
    secrets?: Array<string>;
    /**
     *
     */
    gpuType?: StringOrList;
    /**
     *
     */
    dockerOptions?: DockerOptions;
    /**
     * Id or name.
     */
    nodePool?: string;
    /**
     *
     */
    credentialName?: string;
    /**
     *
     */
    checkpointStorageCredentialName?: string;
    /**
     *
     */
    inputStorageCredentialName?: string;
    /**
     *
     */
    outputStorageCredentialName?: string;
}



/**
 *
 * @export
 */
export const SubmitWorkloadRequestLaunch = {
    Single: 'single',
    Distributed: 'distributed',
} as const;
export type SubmitWorkloadRequestLaunch = typeof SubmitWorkloadRequestLaunch[keyof typeof SubmitWorkloadRequestLaunch];

/**
 *
 * @export
 * @interface SubmitWorkloadRequestMount
 */
export interface SubmitWorkloadRequestMount {
    /**
     *
     */
    name: string;
    /**
     *
     */
    path: string;
    /**
     *
     */
    ro?: boolean;
}
/**
 *
 * @export
 * @interface UpdateDeploymentAnswer
 */
export interface UpdateDeploymentAnswer {
    /**
     *
     */
    deployment: Deployment;
}
/**
 *
 * @export
 * @interface UpgradeServiceResponse
 */
export interface UpgradeServiceResponse {
    /**
     *
     */
    id: string;
    /**
     *
     */
    url: string | null;
}
/**
 * A GitHub account.
 * @export
 * @interface User
 */
export interface User {
    /**
     *
     */
    userId: string;
    /**
     *
     */
    username: string;
}
/**
 *
 * @export
 * @interface Workload
 */
export interface Workload {
    /**
     *
     */
    id: string;
    /**
     * One of `queued`, `provisioning`, `initializing`, `downloading`, `starting`, `syncing`, `retrying`, `recovering`, `running`, `finalizing`, `completed`, `failed`, `errored`, `invalid`, `terminated`; later releases may have more.
     */
    state: string;
    /**
     * One of `job`, `service`, `vm`; later releases may have more.
     */
    workloadType: string;
    /**
     *
     */
    submissionRevision: number;
    /**
     *
     */
    claimed: boolean;
    /**
     *
     */
    claimDeadlineAt: number | null;
    /**
     *
     */
    deploymentId: string | null;
    /**
     *
     */
    nodePoolId?: string;
    /**
     *
     */
    nodePoolName?: string;
    /**
     *
     */
    userId: string;
    /**
     *
     */
    session: string | null;
    /**
     *
     */
    sessionLabel: string | null;
    /**
     *
     */
    agent: string | null;
    /**
     * When the record was made.
     */
    startedAt: number;
    /**
     *
     */
    completedAt: number | null;
    /**
     *
     */
    cleanedAt?: number;
    /**
     *
     */
    cleanupError?: string;
    /**
     * Container configuration; unset for a Job that targets a Deployment.
     */
    image: string | null;
    /**
     *
     */
    imageDigest: string | null;
    /**
     *
     */
    command: Array<string> | null;
    /**
     *
     */
    dockerCommand: string;
    /**
     *
     */
    dockerOptions: DockerOptions | null;
    /**
     *
     */
    secretNames: Array<string> | null;
    /**
     * VM placement; unset for what runs on a node pool.
     */
    cloudProvider: string | null;
    /**
     *
     */
    region: string | null;
    /**
     *
     */
    availabilityZone: string | null;
    /**
     *
     */
    vmType: StringOrList | null;
    /**
     *
     */
    gpuType: StringOrList | null;
    /**
     *
     */
    spot: boolean;
    /**
     *
     */
    vmCount: number;
    /**
     *
     */
    diskSizeGb: number | null;
    /**
     * One of `medium`, `high`, `ultra`; later releases may have more.
     */
    diskTier: string | null;
    /**
     *
     */
    inputBucket: string | null;
    /**
     *
     */
    inputStorageRegion: string | null;
    /**
     *
     */
    outputBucket: string | null;
    /**
     *
     */
    outputStorageRegion: string | null;
    /**
     *
     */
    checkpointBucket: string | null;
    /**
     *
     */
    checkpointStorageRegion: string | null;
    /**
     * Cost; unset for what has no VM of its own.
     */
    costSource: string | null;
    /**
     *
     */
    totalCost: number | null;
    /**
     *
     */
    vmDurationMs: number | null;
    /**
     *
     */
    awaitingReleaseMs: number | null;
    /**
     *
     */
    dnsRecordId: string | null;
    /**
     *
     */
    publicEndpoint: WorkloadPublicEndpoint | null;
    /**
     *
     */
    version: string | null;
}
/**
 *
 * @export
 * @interface WorkloadPublicEndpoint
 */
export interface WorkloadPublicEndpoint {
    /**
     *
     */
    ip: string | null;
    /**
     *
     */
    error: string | null;
    /**
     * One of `published`, `repointing`, `stale`; later releases may have more.
     */
    state: string;
}
/**
 *
 * @export
 * @interface WorkloadStatus
 */
export interface WorkloadStatus {
    /**
     * One of `up`, `down`, `-`; later releases may have more.
     */
    status: string;
    /**
     *
     */
    workload: Workload;
    /**
     * Newest first.
     */
    events: Array<WorkloadStatusEvent>;
    /**
     *
     */
    eventsTotal?: number;
    /**
     * Earlier Jobs in the Deployment's queue; set for a queued Job only.
     */
    jobsAhead: number | null;
    /**
     *
     */
    retry?: WorkloadStatusRetry;
}
/**
 *
 * @export
 * @interface WorkloadStatusEvent
 */
export interface WorkloadStatusEvent {
    /**
     *
     */
    id: number;
    /**
     *
     */
    workloadId: string;
    /**
     *
     */
    createdAt: number;
    /**
     * One of `queued`, `provisioning`, `initializing`, `downloading`, `starting`, `syncing`, `retrying`, `recovering`, `running`, `finalizing`, `completed`, `failed`, `errored`, `invalid`, `terminated`; later releases may have more.
     */
    state: string;
    /**
     *
     */
    metadata: object | null;
}
/**
 *
 * @export
 * @interface WorkloadStatusRetry
 */
export interface WorkloadStatusRetry {
    /**
     * The first retry is 1.
     */
    attempt: number;
    /**
     *
     */
    earliestAt: number;
    /**
     *
     */
    latestAt: number;
}
