"""Rules of Deployments, Jobs and Secrets: pure functions and frozen dataclasses."""
