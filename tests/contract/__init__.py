"""The contract of /v1, judged by the published client and by what goes over the wire.

A package, so that its installation ends with its last test and not with all others'.
"""
