"""The commands, one module each, grouped by what people use them for."""
