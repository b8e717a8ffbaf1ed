/* tslint:disable */
/* eslint-disable */
export * from './ApiAccessApi.js';
export * from './ApiTokensApi.js';
export * from './BucketsApi.js';
export * from './ClustersApi.js';
export * from './CostsApi.js';
export * from './CredentialsApi.js';
export * from './DatabaseApi.js';
export * from './DeploymentJobsApi.js';
export * from './DeploymentsApi.js';
export * from './NodePoolsApi.js';
export * from './NotificationsApi.js';
export * from './QuotaApi.js';
export * from './SecretsApi.js';
export * from './ServicesApi.js';
export * from './SpendApi.js';
export * from './SshAccessApi.js';
export * from './SystemReleaseApi.js';
export * from './WorkloadsApi.js';
