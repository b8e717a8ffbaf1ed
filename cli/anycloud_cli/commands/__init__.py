"""One module a group of commands; imported when one of its commands runs."""
