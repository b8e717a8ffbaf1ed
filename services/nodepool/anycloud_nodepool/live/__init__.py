"""What the cluster shows right now."""
