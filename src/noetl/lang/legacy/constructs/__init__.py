"""Constructs that playbooks in the wild have and no document describes: each becomes canonical tasks and keys, or a TODO."""
