"""What commands print: progress, tables, trees, explanations."""
