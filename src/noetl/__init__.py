"""NoETL: durable workflows in plain YAML."""

__version__ = "0.1.0"
