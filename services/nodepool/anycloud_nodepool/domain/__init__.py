"""Rules of node pools: pure."""
