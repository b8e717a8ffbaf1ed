"""A small Kubernetes: objects, watches, identities, and the controllers that the product leans on."""
