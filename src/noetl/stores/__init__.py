"""Where event logs live: in a SQLite file, or in memory for tests."""
