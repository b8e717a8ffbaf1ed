"""The command line: talks HTTP/JSON to `/v1` only, as any other client would.

Nothing heavy is imported before a command runs, so that `anycloud --help` starts as fast as a shell tool.
"""

VERSION = "0.1.70"
"""Sent with every request: the API refuses a client of another version."""
