"""A template's tree to Python closures, each a function of the run."""
