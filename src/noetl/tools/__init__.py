"""One module per tool kind; none knows another."""
