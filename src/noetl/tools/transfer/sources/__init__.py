"""Sources in the data host: files, objects and PostgreSQL as chunks of rows."""
