"""Rows that the engine fetches or sends itself: pages of an API, values in hand, chunk requests."""
