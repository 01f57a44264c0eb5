"""Where large payloads lie, and how they are written down."""
