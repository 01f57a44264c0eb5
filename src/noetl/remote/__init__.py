"""A server elsewhere, seen from here: its log as an `EventLog`, over HTTP."""
