"""JSON Schema: the grammar as a schema for editors, and values validated against schemas."""
