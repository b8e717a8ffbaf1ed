"""The sandbox in place of a cloud: its world API over HTTP."""
