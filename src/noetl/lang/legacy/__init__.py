"""Older dialects, lowered."""
