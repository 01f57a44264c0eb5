"""The names of all filters, tests and global functions, known without importing jinja2."""

from __future__ import annotations

from typing import Final

#: the language's own, beside Jinja2's
OWN_FILTERS: Final = frozenset({"to_json", "from_json", "sha256", "b64encode", "b64decode", "jsonpath", "sql", "raw"})
#: Jinja2's; a test compares them with the installed version
JINJA_FILTERS: Final = frozenset(
    """abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape
    format groupby indent int items join last length list lower map max min pprint random reject rejectattr
    replace reverse round safe select selectattr slice sort string striptags sum title tojson trim truncate
    unique upper urlencode urlize wordcount wordwrap xmlattr""".split()  # noqa: SIM905  a list of words reads better so
)
FILTERS: Final = OWN_FILTERS | JINJA_FILTERS
TESTS: Final = frozenset(
    """boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan gt in integer
    iterable le lessthan lower lt mapping ne none number odd sameas sequence string test true undefined upper
    == != > >= < <=""".split()  # noqa: SIM905  a list of words reads better so
)
#: the language's own functions that are there in every template; they are called with nothing
OWN_FUNCTIONS: Final = frozenset({"now", "uuid"})
#: functions of Jinja2 that are there in every template
FUNCTIONS: Final = frozenset({"range", "dict", "lipsum", "cycler", "joiner", "namespace"})
