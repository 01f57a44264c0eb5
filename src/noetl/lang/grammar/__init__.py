"""The grammar: which keys stand where and what they hold, and nodes checked against it."""
