"""The catalogue of slugs: every code a diagnostic may carry, explained.

`noetl help SLUG`, the rules of a SARIF log and the reference pages are read off this table.
"""

from collections.abc import Mapping

from noetl.model.slugs.data import DATA
from noetl.model.slugs.document import DOCUMENT, LEGACY, Slug, older_construct
from noetl.model.slugs.flow import FLOW
from noetl.model.slugs.names import NAMES, TEMPLATES

__all__ = ["SLUGS", "Slug", "slug_info"]

SLUGS: Mapping[str, Slug] = {slug.code: slug for slug in (*DOCUMENT, *NAMES, *TEMPLATES, *DATA, *FLOW, *LEGACY)}


def slug_info(code: str) -> Slug | None:
    """What a code means, None for one that does not exist; any `legacy-<word>` is an older construct."""
    found = SLUGS.get(code)
    if found is not None or not code.startswith("legacy-"):
        return found
    return older_construct(code)
