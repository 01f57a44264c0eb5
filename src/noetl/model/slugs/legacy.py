"""Slugs of the older dialects: `legacy-<word>`, one for each old word, all of one family."""

from noetl.model.slugs.entry import Slug, make_slug

_WHY = "There is one canonical spelling of everything; older ones are lowered to it."
_MEND = (
    "`noetl migrate FILE` rewrites the file and keeps its comments. Until then `--legacy` runs it as it is, "
    "unless the message is a warning: then no flag is needed."
)

LEGACY = (
    make_slug(
        "legacy-habit",
        title="A habit of playbooks in the wild",
        meaning="No document ever described this spelling, but playbooks use it.",
        why=_WHY,
        mend=_MEND,
    ),
    make_slug(
        "legacy-todo",
        title="A person has to decide",
        meaning="The older construct can mean more than one thing; what stands there now is the likeliest.",
        why="Migration never guesses in silence: it leaves a `# TODO noetl:` comment.",
        mend="Read the comment, correct the place if need be, and remove the comment.",
    ),
)


def older_construct(code: str) -> Slug:
    """The slug of an older construct, by its old word."""
    word = code.removeprefix("legacy-").replace("-", " ")
    return Slug(
        code,
        title=f"An older construct: {word}",
        meaning=f"`{word}` belongs to an older dialect of the language; the message names the canonical spelling.",
        why=_WHY,
        mend=_MEND,
    )
