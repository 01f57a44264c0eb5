"""The compiler: a template's tree to Python closures, each a function of the evaluation."""
