"""What closures may do: nothing here reaches Python's own attribute access, and all that can take long or grow
large is charged to the evaluation's budget first."""
