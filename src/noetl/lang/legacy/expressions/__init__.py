"""Templates of an older document: where each stands, and its names rewritten in place."""
