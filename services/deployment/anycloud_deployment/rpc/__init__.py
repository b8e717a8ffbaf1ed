"""gRPC servicers: check, call, map."""
