"""Commands against a server: where it is, starting and following executions there."""
