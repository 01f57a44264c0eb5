"""Clients of foreign systems, shared by tools, stores, results and the bus. Each module is a public subject."""
