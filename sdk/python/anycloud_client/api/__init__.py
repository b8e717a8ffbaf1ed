# flake8: noqa

__all__ = [
    "ApiAccessApi",
    "ApiTokensApi",
    "BucketsApi",
    "ClustersApi",
    "CostsApi",
    "CredentialsApi",
    "DatabaseApi",
    "DeploymentJobsApi",
    "DeploymentsApi",
    "NodePoolsApi",
    "NotificationsApi",
    "QuotaApi",
    "SecretsApi",
    "ServicesApi",
    "SpendApi",
    "SshAccessApi",
    "SystemReleaseApi",
    "WorkloadsApi",
]

import typing as _typing

if _typing.TYPE_CHECKING:
    # import apis into api package
    from anycloud_client.api.api_access_api import ApiAccessApi
    from anycloud_client.api.api_tokens_api import ApiTokensApi
    from anycloud_client.api.buckets_api import BucketsApi
    from anycloud_client.api.clusters_api import ClustersApi
    from anycloud_client.api.costs_api import CostsApi
    from anycloud_client.api.credentials_api import CredentialsApi
    from anycloud_client.api.database_api import DatabaseApi
    from anycloud_client.api.deployment_jobs_api import DeploymentJobsApi
    from anycloud_client.api.deployments_api import DeploymentsApi
    from anycloud_client.api.node_pools_api import NodePoolsApi
    from anycloud_client.api.notifications_api import NotificationsApi
    from anycloud_client.api.quota_api import QuotaApi
    from anycloud_client.api.secrets_api import SecretsApi
    from anycloud_client.api.services_api import ServicesApi
    from anycloud_client.api.spend_api import SpendApi
    from anycloud_client.api.ssh_access_api import SshAccessApi
    from anycloud_client.api.system_release_api import SystemReleaseApi
    from anycloud_client.api.workloads_api import WorkloadsApi

else:
    from importlib import import_module

    _exports = {
        "ApiAccessApi": ".api_access_api",
        "ApiTokensApi": ".api_tokens_api",
        "BucketsApi": ".buckets_api",
        "ClustersApi": ".clusters_api",
        "CostsApi": ".costs_api",
        "CredentialsApi": ".credentials_api",
        "DatabaseApi": ".database_api",
        "DeploymentJobsApi": ".deployment_jobs_api",
        "DeploymentsApi": ".deployments_api",
        "NodePoolsApi": ".node_pools_api",
        "NotificationsApi": ".notifications_api",
        "QuotaApi": ".quota_api",
        "SecretsApi": ".secrets_api",
        "ServicesApi": ".services_api",
        "SpendApi": ".spend_api",
        "SshAccessApi": ".ssh_access_api",
        "SystemReleaseApi": ".system_release_api",
        "WorkloadsApi": ".workloads_api",
    }

    def __getattr__(name: str) -> object:
        if (module_name := _exports.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(module_name, __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted(globals().keys() | _exports.keys())
