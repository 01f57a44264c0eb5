"""Credentials: the encrypted store, the other places they come from, and the keychain of an execution."""
