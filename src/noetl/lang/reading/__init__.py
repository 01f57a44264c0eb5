"""YAML text to nodes that know their place, and the mistakes authors make in YAML."""
