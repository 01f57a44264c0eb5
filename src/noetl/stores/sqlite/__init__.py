"""An event log in one SQLite file, shared by processes of one machine."""
