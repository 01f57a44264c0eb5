"""PostgreSQL, for whoever talks to it: connections from credentials, what its errors mean."""
