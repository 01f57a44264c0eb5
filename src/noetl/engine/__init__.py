"""The server's brain: tokens, loops, routing, endings. Pure: time and ids come in as arguments."""
