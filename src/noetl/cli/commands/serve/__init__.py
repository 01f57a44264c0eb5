"""Commands that run servers and workers, in the foreground or in the background."""
