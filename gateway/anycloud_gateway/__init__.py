"""The door of an installation: Envoy, its configuration and its filter."""
