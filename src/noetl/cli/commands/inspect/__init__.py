"""Commands that read executions: lists, states, events, logs, results, explanations."""
