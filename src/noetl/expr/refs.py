"""References: what a template may see of a payload that lies elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl.errors import TemplateError

#: all that a reference shows; reaching for anything else is reaching for the payload through it
REF_FIELDS: Final = ("type", "locator", "auth_reference", "meta")


class Ref(dict[str, Any]):
    """A reference to a stored payload. To templates it has the keys of REF_FIELDS and no others."""

    __slots__ = ()

    def field(self, name: object) -> Any:
        """The value of one of the four fields; anything else is an error of kind `ref-deref`."""
        if name in REF_FIELDS:
            return self.get(str(name))
        raise beyond(name)


def is_reference(value: Any) -> bool:
    """Whether a value has the shape of a reference, whatever its class."""
    return isinstance(value, Ref) or (
        isinstance(value, Mapping) and len(value) == len(REF_FIELDS) and all(name in value for name in REF_FIELDS)
    )


def beyond(name: object) -> TemplateError:
    """The error of reaching for `name` through a reference."""
    error = TemplateError(
        f"`{name}` is not part of a reference, which shows only {', '.join(REF_FIELDS)}; "
        "the payload itself is fetched by a task of `kind: resolve`"
    )
    error.kind = "ref-deref"
    return error
