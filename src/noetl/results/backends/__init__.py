"""Where payload files are kept: a folder, a bucket, a database, NATS; and the local cache."""
