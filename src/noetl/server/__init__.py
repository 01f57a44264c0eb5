"""The control plane: admits, routes, keeps the log. It never runs a tool."""
