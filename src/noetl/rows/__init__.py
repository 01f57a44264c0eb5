"""Rows in files and databases, read with DuckDB: as JSON, whole or by range. Whoever needs rows in hand comes here."""
