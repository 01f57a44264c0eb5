"""Templates: that they parse, use filters and names that exist, and that a `when` is one expression."""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.expr import (
    FILTERS,
    FUNCTIONS,
    OWN_FUNCTIONS,
    STEP_HELPERS,
    TESTS,
    TemplateProblem,
    guard,
    has_template,
    visible_names,
)
from noetl.lang.building.template_sites import Site, SitePlace
from noetl.lang.checks.subject import Subject
from noetl.lang.reading.node import DOUBLE, PLAIN, SINGLE
from noetl.model.diagnostics import Edit, Where
from noetl.model.nearest import SpellingHints

# What was meant by a template that does not parse or names a filter nobody knows: other languages' words for ours.


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


def unknown_filter(source: str, problem: TemplateProblem, hints: SpellingHints) -> Phrase:
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


def syntax(source: str, problem: TemplateProblem) -> Phrase:
    """Of a template that does not parse: where, and what to write."""
    at = problem.offset
    for sign, fix, instead in _OPERATORS:
        # The parser may stop at any character of an operator.
        for start in range(max(0, at - len(sign) + 1), at + 1):
            if source.startswith(sign, start):
                return Phrase(start, len(sign), fix, instead)
    if (refused := _REFUSED.search(problem.message)) is not None:
        return Phrase(at, len(found[0]) if (found := _NAME.match(source, at)) else 1, refused[2])
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


#: what tokens carry (v10): it is read with a warning, and told to nobody
_CARRIED = "args"
#: how other languages call nothing
_NOTHING = frozenset({"nil", "NULL", "Null"})
#: what yields data only when it is called
_CALLED = OWN_FUNCTIONS | FUNCTIONS | STEP_HELPERS
#: questions that may be asked of a function
_ASKED_ABOUT = re.compile(r"\bis\s+(not\s+)?(defined|undefined|callable)\b")
#: a statement that is refused by its name, and what does its work
_REFUSED = re.compile(r"(is not part of the language): (.+)", re.DOTALL)
_COUNTED = re.compile(r" at \d+$")
#: what a workbook task cannot see of its caller
_CALLERS_OWN = frozenset({"iter", "steps"})


def check(subject: Subject) -> None:
    """Report templates that cannot be evaluated where they stand."""
    final = (subject.around.playbook if subject.around is not None else subject.playbook).final_step
    for site in subject.sites.all:
        known = names_at(site.place)
        # The step that runs last sees how the execution ended.
        of_final = final is not None and site.place.step == final
        check_site(subject, site, known | {"event"} if of_final else known)


def check_site(subject: Subject, site: Site, known: frozenset[str]) -> None:
    """Report what is wrong with one template that may use these names."""
    if site.is_when and not getattr(site.template, "form_ok", True):
        _not_one_expression(subject, site)
        return
    for problem in site.template.problems:
        _problem(subject, site, problem)
    # What could be parsed is checked too: an author sees all problems of a template at once.
    _names(subject, site, known)


def _problem(subject: Subject, site: Site, problem: TemplateProblem) -> None:
    source = site.template.source
    if problem.code == "unknown-filter":
        phrase = unknown_filter(source, problem, subject.hints)
    else:
        phrase = syntax(source, problem)
    at = subject.where(site, phrase.offset, phrase.length)
    wrong = source[phrase.offset : phrase.offset + phrase.length]
    # The parser counts from the start of the expression, which is not the place the reader sees.
    message = _REFUSED.sub(r"\1", _COUNTED.sub("", problem.message))
    edits = subject.rename_edits(at, wrong, phrase.instead) if wrong else []
    subject.problems.error(problem.code, message, at, fix=phrase.fix, edits=edits)


def names_at(place: SitePlace) -> frozenset[str]:
    """The names a template may use at a place."""
    names = visible_names(place.boundary, place.in_loop)
    return names - _CALLERS_OWN if place.workbook else names


def _not_one_expression(subject: Subject, site: Site) -> None:
    node = site.node
    bare = node.text.strip()
    wrapped = f"{{{{ {bare} }}}}"
    mendable = bare and not has_template(bare) and not guard(wrapped).problems
    quote = node.style if node.style in (SINGLE, DOUBLE) else "'" if '"' in bare else '"'
    edits = []
    if (
        mendable
        and node.style in (PLAIN, SINGLE, DOUBLE)
        and "\n" not in bare
        and quote not in bare
        and "\\" not in bare
    ):
        edits = [Edit(node.start, node.end, f"{quote}{wrapped}{quote}")]
    subject.problems.error(
        "template-in-when",
        "a `when` is one `{{ … }}` expression, or true or false",
        (node.place, node.alias[1] if node.alias else node.end),
        fix=f"write {quote}{wrapped}{quote}" if mendable else "put the whole condition into one `{{ … }}`",
        edits=edits,
    )


def _names(subject: Subject, site: Site, known: frozenset[str]) -> None:
    for read in site.template.reads:
        name = read.path[0]
        if (name in known and name not in _CALLED) or name == _CARRIED:
            continue
        at = subject.where(site, read.offset, len(name))
        if name in known:
            _report_uncalled(subject, site, name, at)
            continue
        if name == "iter":
            fix = "give the step a `loop`, or keep the value in `step.*`"
            subject.problems.error("iter-outside-loop", "`iter` exists only inside of a loop", at, fix=fix)
            continue
        fix, instead = _what_instead(subject, name, known)
        edits = subject.rename_edits(at, name, instead)
        subject.problems.error("unknown-scope", f"`{name}` is not known here", at, fix=fix, edits=edits)
    for call in site.template.calls:
        if call.name not in known:
            at = subject.where(site, call.offset, len(call.name))
            message = f"there is no function `{call.name}` here"
            fix, instead = _what_instead(subject, call.name, known)
            edits = subject.rename_edits(at, call.name, instead)
            subject.problems.error("unknown-scope", message, at, fix=fix, edits=edits)


def _report_uncalled(subject: Subject, site: Site, name: str, at: Where) -> None:
    """A function is no data: it cannot be stored, and as a condition it would always hold, or never."""
    if _ASKED_ABOUT.search(site.template.source):
        return
    instead = f"{name}()" if name in OWN_FUNCTIONS else None
    way = instead or (f"{name}('a_step')" if name in STEP_HELPERS else f"{name}(…)")
    edits = subject.rename_edits(at, name, instead)
    subject.problems.error("uncalled-function", f"`{name}` is a function", at, fix=f"write `{way}`", edits=edits)


def _what_instead(subject: Subject, name: str, known: frozenset[str]) -> tuple[str, str | None]:
    """What to write for an unknown name, and the name to put in its place where there is no doubt."""
    if name in _NOTHING:
        return "write `none`", "none"
    if name in subject.playbook.workload:
        return f"write `workload.{name}`", None
    if name in subject.step_names:
        return (
            f'publish it with `set: {{ctx.{name}: "{{{{ output.data }}}}"}}` on that step and read `ctx.{name}`',
            None,
        )
    meant = subject.hints.nearest(name, known)
    if meant is not None:
        return f"did you mean `{meant}`?", subject.hints.certain(name, known)
    return f"names known here: {', '.join(sorted(n for n in known if not n.startswith('_')))}", None
