"""The data host: a process of an execution in which DuckDB works and rows are gone through, kept warm between tasks."""
