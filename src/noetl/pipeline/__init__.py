"""The worker's brain: where a pipeline stands and what it does next. Pure."""
