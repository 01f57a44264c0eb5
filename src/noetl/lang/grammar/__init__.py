"""The grammar: which keys stand where and what they hold; nodes checked against it; and the grammar as JSON Schema."""
