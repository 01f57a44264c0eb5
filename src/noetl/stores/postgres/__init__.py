"""An event log in PostgreSQL, shared by any number of servers."""
