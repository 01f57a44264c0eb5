"""Commands that start, resume, repeat and control executions."""
