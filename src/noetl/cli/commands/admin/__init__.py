"""Commands that look after an installation: credentials, tokens, archives, garbage, checks, help."""
