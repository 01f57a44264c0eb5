"""Playbooks under test: trials with mocked tools, time that is skipped, and deaths at every write."""
