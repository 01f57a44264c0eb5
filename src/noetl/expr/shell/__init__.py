"""Shell commands with templates: every value arrives as one unchanged word."""
