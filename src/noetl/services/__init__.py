"""Real servers on this machine, from Python packages: PostgreSQL, NATS and S3, for development, tests and measurements.

They come with the extra `devservices`, listen on loopback alone and end with whoever started them.
"""
