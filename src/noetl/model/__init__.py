"""The vocabulary of all packages: playbook, net, events, orders, requests, state, diagnostics, messages. Pure.

Nearly everything is frozen data. `model.state` is the exception: it is changed in place, and only `engine.fold` changes it.
Functions stay small: they read, compare and convert these values.
"""
