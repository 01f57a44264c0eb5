"""What plugins import: the declaration of a tool kind, the outputs of a task, and what a tool is given.

A tool kind is a module with `KIND` and `run`, announced under the entry point group `noetl.tools`. These names stay
where they are; everything else in `noetl` may move between versions.
"""

from __future__ import annotations

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import Output, failed, failure, ok
from noetl.model.shape import Anything, Beside, Flag, Key, ListOf, MapOf, Number, OneOf, Text, Word
from noetl.ports import Call, NoCredential, World

__all__ = [
    "Anything",
    "Beside",
    "Call",
    "Flag",
    "InputRole",
    "Key",
    "ListOf",
    "MapOf",
    "NoCredential",
    "Number",
    "OneOf",
    "Output",
    "Text",
    "ToolKind",
    "Word",
    "World",
    "failed",
    "failure",
    "ok",
]
