"""Values as text: what `{{ … }}` inside other text and `~` make of them, and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expr.sandbox.run import Run, checked_float, checked_int, weigh
from noetl.expr.sandbox.undefined import refuse_missing
from noetl.expr.vocabulary import OWN_FUNCTIONS

#: as Jinja2's `tojson` writes them, so that the text is safe inside HTML as well
_HTML_SAFE: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})
#: deeper indentation than this is a way to make much out of little
_MOST_INDENT: Final = 16


def to_text(run: Run, value: Any) -> str:
    """A value inside text: JSON for maps and lists, `true`/`false`, nothing for null."""
    kind = value.__class__
    if kind is str:
        text: str = value
    elif value is None:
        return ""
    elif kind is bool:
        return "true" if value else "false"
    elif kind is int:
        return str(checked_int(value))
    elif kind is float:
        return repr(checked_float(value))
    else:
        text = _other_text(run, value)
    run.grow(len(text))
    return text


def _other_text(run: Run, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    refuse_missing(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Mapping, list, tuple, range)):
        return tojson(run, value)
    raise unfit(value, run)


def unfit(value: Any, run: Run | None = None) -> TemplateError:
    """The error of a value that is not data, a function for instance."""
    what, way_out = type(value).__name__, ""
    if callable(value):
        what = "function"
        scopes = run.scopes if run is not None else {}
        way_out = "".join(f": write `{name}()`" for name in OWN_FUNCTIONS if scopes.get(name) is value)
    error = TemplateError(f"it yields a {what}, which is not data{way_out}")
    error.kind = "type"
    return error


def tojson(run: Run, value: Any, indent: int | None = None) -> str:
    """As Jinja2's filter of that name writes it: keys sorted, non-ASCII and HTML characters escaped."""
    return dumps(run, value, indent=indent, sort_keys=True).translate(_HTML_SAFE)


def dumps(run: Run, value: Any, *, indent: int | None = None, sort_keys: bool = False, ascii_only: bool = True) -> str:
    """JSON text, paid for beforehand."""
    refuse_missing(value)
    run.grow(weigh(run, value))
    if indent is None:
        return json.dumps(value, default=_encoded, sort_keys=sort_keys, ensure_ascii=ascii_only, allow_nan=False)
    if indent > _MOST_INDENT:
        raise TemplateError(f"an indent of more than {_MOST_INDENT} is not supported")
    encoder = json.JSONEncoder(
        default=_encoded, sort_keys=sort_keys, ensure_ascii=ascii_only, allow_nan=False, indent=indent
    )
    chunks: list[str] = []
    for chunk in encoder.iterencode(value):
        run.work(1)
        run.grow(len(chunk))
        chunks.append(chunk)
    return "".join(chunks)


def _encoded(value: Any) -> Any:
    """What stands in JSON for a value that the encoder does not know."""
    refuse_missing(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, range):
        return list(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    raise unfit(value)
