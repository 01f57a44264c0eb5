"""What was meant by a template that does not parse or names a filter nobody knows: other languages' words for ours."""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.expr import Problem
from noetl.expr.vocabulary import FILTERS, TESTS
from noetl.model.nearest import Hints


class Phrase(NamedTuple):
    """A stretch of a template, what to do about it, and what to put in its place where that is certain."""

    offset: int
    length: int
    fix: str
    instead: str | None = None


#: other names for filters and tests
_FILTERS = {
    "size": "length", "len": "length", "json": "to_json", "json_encode": "to_json", "fromjson": "from_json",
    "json_decode": "from_json", "parse_json": "from_json", "base64": "b64encode", "base64encode": "b64encode",
    "base64decode": "b64decode", "uppercase": "upper", "lowercase": "lower", "strip": "trim", "str": "string",
    "to_string": "string", "to_int": "int", "integer": "int", "number": "float", "coalesce": "default",
    "ifnull": "default", "concat": "join", "uniq": "unique", "hash": "sha256",
}  # fmt: skip
_TESTS = {"null": "none", "nil": "none", "str": "string", "int": "integer", "list": "sequence", "dict": "mapping", "map": "mapping",
          "bool": "boolean", "exists": "defined"}  # fmt: skip
#: what stands where the parser stopped → what to do, and what to put in its place
_OPERATORS: tuple[tuple[str, str, str | None], ...] = (
    ("&&", "write `and`", "and"),
    ("||", "write `or`", "or"),
    ("===", "write `==`", "=="),
    ("!==", "write `!=`", "!="),
    ("<>", "write `!=`", "!="),
    ("??", "write `| default(…)`", None),
    ("?", "write `this if condition else that`", None),
    ("!", "write `not`", "not "),
    ("=", "write `==` to compare", "=="),
    ("$", "write the name without `$`", ""),
    (";", "remove it", ""),
)
_TYPOGRAPHIC = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"}
_NAME = re.compile(r"[\w.]+")


def unknown_filter(source: str, problem: Problem, hints: Hints) -> Phrase:
    """Of a filter or test that does not exist: its name, and the one that was meant."""
    found = _NAME.match(source, problem.offset)
    name = found[0] if found is not None else source[problem.offset : problem.offset + 1]
    is_test = "test" in problem.message
    others, known = (_TESTS, TESTS) if is_test else (_FILTERS, FILTERS)
    if name in others:
        return Phrase(problem.offset, len(name), f"write `{others[name]}`", others[name])
    meant = hints.nearest(name, known)
    fix = f"did you mean `{meant}`?" if meant else f"`noetl help {problem.code}` says which there are"
    return Phrase(problem.offset, len(name), fix, hints.certain(name, known) if meant else None)


def syntax(source: str, problem: Problem) -> Phrase:
    """Of a template that does not parse: where, and what to write."""
    at = problem.offset
    for sign, fix, instead in _OPERATORS:
        # The parser may stop at any character of an operator.
        for start in range(max(0, at - len(sign) + 1), at + 1):
            if source.startswith(sign, start):
                return Phrase(start, len(sign), fix, instead)
    sign = source[at : at + 1]
    if sign in _TYPOGRAPHIC:
        return Phrase(at, 1, "use straight quotes: ' or \"")
    return Phrase(at, 1, _in_words(sign, problem.message))


def _in_words(sign: str, message: str) -> str:
    if "characters long" in message:
        return "put data under `workload`, and make what is long in a `python` task"
    if sign in ("'", '"'):
        return "close the quote"
    if found := re.search(r", expected '([)\]}])'", message):
        return f"close the bracket with `{found[1]}`"
    if found := re.search(r"that needs to be closed is '(\w+)'", message):
        return f"add `{{% end{found[1]} %}}`"
    if "unexpected 'end of print statement'" in message:
        return "write what is missing before `}}`"
    if "got 'end of print statement'" in message:
        return "write an expression between `{{` and `}}`"
    if "expected token 'end of print statement'" in message:
        return "put an operator between the two, such as `and`, `==` or `~`"
    return "check the brackets, the quotes and the operators"
