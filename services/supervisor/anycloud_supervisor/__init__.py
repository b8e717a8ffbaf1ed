"""Starts, watches and stops the processes of one installation.

`python -m anycloud_supervisor local|hosted|status|stop`. It knows processes, not what they do: an installation is a
list of steps (`plan.py`), each some processes with a probe that tells when they are ready.
"""
