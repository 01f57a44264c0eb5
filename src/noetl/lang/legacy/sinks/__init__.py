"""Sinks of an older document, rewritten to tasks that follow the tool."""
