"""One module per tool kind; none knows another. `processes` and `plain` are what several of them need."""
