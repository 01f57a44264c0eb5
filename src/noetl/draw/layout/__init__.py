"""A layered layout, top to bottom: rows, their order, where everything stands.

One pass per module: `ranks` (which row), `plan` (spots and wires), `order` and `lines` (left to right), `placing` and
`straight` (x), `arranging` (the best of several), `ports` (where arcs meet cards), `stack` (y).
"""
