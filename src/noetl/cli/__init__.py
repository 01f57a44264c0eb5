"""The command line. Each command has a module of its own, imported when it is called; `commands` is their table."""
