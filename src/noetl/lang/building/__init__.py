"""Nodes to the typed playbook, with its templates and effective specs, and the playbook to its net."""
