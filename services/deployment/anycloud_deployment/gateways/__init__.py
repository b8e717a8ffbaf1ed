"""The ports, on Kubernetes, nodepool and image registries."""
