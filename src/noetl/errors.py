"""Every exception NoETL raises, drawn as a tree.

NoetlError
├── TemplateError        a template failed while it was evaluated (`error.kind: template`)
│   ├── UndefinedValue   an undefined reached a value
│   └── TemplateLimit    it ran too long or grew too large
└── UsageError           the command line or a file it names cannot be used

What is wrong with a playbook is never an exception: it is a `Diagnostic` (see `noetl.model.diagnostics`).
"""


class NoetlError(Exception):
    """The root: catch this to catch everything NoETL raises on purpose."""


class TemplateError(NoetlError):
    """A template failed while it was evaluated."""

    kind = "template"

    def __init__(self, message: str, *, expression: str = "") -> None:
        super().__init__(message)
        self.message = message
        #: the template's source text, as the author wrote it
        self.expression = expression


class UndefinedValue(TemplateError):
    """An undefined reached a value."""


class TemplateLimit(TemplateError):
    """The template ran too long or grew too large."""


class UsageError(NoetlError):
    """The command line, or a file it names, cannot be used."""


def in_words(error: BaseException) -> str:
    """What an exception says: one of ours speaks for itself, of another it is told which it is."""
    return str(error) if isinstance(error, NoetlError) else f"{type(error).__name__}: {error}"
