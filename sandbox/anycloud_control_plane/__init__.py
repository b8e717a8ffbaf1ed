"""A real Kubernetes control plane as processes of this machine, set up as K3s does: for the sandbox, and for tests."""
