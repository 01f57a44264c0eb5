"""Proof of a migration: the older text and the migrated one run on the same made-up answers of their tools, and compared.

The older text is run by an interpreter of its own (`older_run`), which reads results as older engines published them. It
shares no code with the passes that rewrite older documents, so that a fault of theirs shows as a difference.
"""
