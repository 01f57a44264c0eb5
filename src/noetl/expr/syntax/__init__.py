"""Template text to a tree, and what can be told from the tree alone."""
