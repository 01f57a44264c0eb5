"""Error kinds of older engines: those of a response become conditions on its status, others today's kinds."""

from __future__ import annotations

import re

from noetl.lang.legacy.lowered_document import Lowering, strings, task_items
from noetl.lang.reading.node import MapEntry, Node, Scalar, text_of

_STATUS = "output.http.status"
#: by kind of an older engine: what it says of the response's status
_OF_A_RESPONSE = {
    "server_error": f"{_STATUS} >= 500", "rate_limit": f"{_STATUS} == 429", "rate_limited": f"{_STATUS} == 429",
    "auth": f"{_STATUS} in [401, 403]", "auth_error": f"{_STATUS} in [401, 403]",
    "authentication": f"{_STATUS} == 401", "unauthorized": f"{_STATUS} == 401", "forbidden": f"{_STATUS} == 403",
    "authorization": f"{_STATUS} == 403", "not_found": f"{_STATUS} == 404",
    "client_error": f"({_STATUS} >= 400 and {_STATUS} < 500)",
}  # fmt: skip
_RENAMED = {
    "connection": "http-transport", "connection_error": "http-transport", "network": "http-transport",
    "network_error": "http-transport", "http_error": "http-status", "http_status": "http-status",
    "timeout_error": "timeout", "sql_error": "sql", "database_error": "sql", "db_error": "sql",
    "python_error": "python", "shell_error": "shell", "playbook_error": "playbook",
}  # fmt: skip
_KIND = r"(?:output|event)\.error\.kind"
_WORD = r"'(\w+)'|\"(\w+)\""
_EQUAL = re.compile(rf"(?P<left>{_KIND})\s*(?P<sign>==|!=)\s*(?:{_WORD})")
_TURNED = re.compile(rf"(?:{_WORD})\s*(?P<sign>==|!=)\s*(?P<left>{_KIND})\b")
_AMONG = re.compile(rf"(?P<left>{_KIND})\s+(?P<sign>(?:not\s+)?in)\s*[\[(](?P<words>[^\])]*)[\])]")
_QUOTED = re.compile(_WORD)


def lower(doc: Lowering) -> None:
    """Rewrite every comparison with a kind of an older engine."""
    for body, called in doc.bodies():
        last = ""
        for _name, task in task_items(body):
            last = text_of(task, "kind")
            for one in task.entries:
                if one.name in ("spec", "set", "output"):
                    _templates(doc, one.value, last, called or body.entry("tool"))
        for one in body.entries:
            if one.name in ("next", "set"):
                _templates(doc, one.value, last, one)


def _templates(doc: Lowering, node: Node, kind: str, holder: MapEntry | None) -> None:
    for one in strings(node):
        if ".error.kind" in one.text:
            _template(doc, one, kind, holder)


def _template(doc: Lowering, node: Scalar, kind: str, holder: MapEntry | None) -> None:
    words = {found[1] or found[2] for found in _QUOTED.finditer(node.text)} & (_OF_A_RESPONSE.keys() | _RENAMED.keys())
    if not words or not (doc.accepted or doc.migrating):
        return
    if kind != "http" and words & _OF_A_RESPONSE.keys():
        doc.todo(
            holder, f"{', '.join(f'`{word}`' for word in sorted(words))}: no error of `{kind}` is of that kind", node
        )
        return
    text = _AMONG.sub(_rewrite, _TURNED.sub(_rewrite, _EQUAL.sub(_rewrite, node.text)))
    if text != node.text:
        doc.report_older("habit", "an error kind of an older engine", "a condition on `output.http.status`", node)
        node.rewrite(text)


def _rewrite(found: re.Match[str]) -> str:
    """One comparison, as conditions on the status and a comparison with today's kinds."""
    listed = found.groupdict().get("words")
    words = [one[1] or one[2] for one in _QUOTED.finditer(listed if listed is not None else found[0])]
    if not any(word in _OF_A_RESPONSE or word in _RENAMED for word in words):
        return found[0]
    parts = list(dict.fromkeys(_OF_A_RESPONSE[word] for word in words if word in _OF_A_RESPONSE))
    kinds = list(dict.fromkeys(_RENAMED.get(word, word) for word in words if word not in _OF_A_RESPONSE))
    if kinds:
        parts.append(f"{found['left']} == '{kinds[0]}'" if len(kinds) == 1 else f"{found['left']} in {kinds}")
    made = parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"
    if found["sign"].startswith(("!", "not")):
        return f"not ({made})" if len(parts) == 1 else f"not {made}"
    return made
