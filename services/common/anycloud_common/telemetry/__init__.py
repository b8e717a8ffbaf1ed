"""What a service tells its operators: log lines and metrics."""
