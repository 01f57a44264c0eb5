"""Commands that work on playbook files: check, format, migrate, draw, explain, test."""
