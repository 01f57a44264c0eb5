"""Keys of other tools are answered with what to write here, and the answer is true."""

import re

import pytest

from noetl.lang.grammar.document_shape import PLAYBOOK, SHAPES, TASK_KEYS
from noetl.lang.grammar.foreign_keys import FOREIGN_KEYS, find_foreign
from noetl.lang.loader import load
from noetl.model.shape import Record
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
KINDS = ToolKinds()
PLACES = {
    "a step": "metadata: {name: t}\nworkflow: [{step: a, WORD: x, tool: {kind: noop}}]\n",
    "a task": "metadata: {name: t}\nworkflow: [{step: a, tool: {kind: noop, WORD: x}}]\n",
    "`metadata`": "metadata: {name: t, WORD: x}\nworkflow: [{step: a, tool: {kind: noop}}]\n",
    "a playbook": "WORD: x\nmetadata: {name: t}\nworkflow: [{step: a, tool: {kind: noop}}]\n",
}
ALL = [(title, word) for title, words in FOREIGN_KEYS.items() for word in words]


@pytest.mark.parametrize(("title", "word"), ALL, ids=lambda one: one.strip("`"))
def test_each_is_one_error_that_says_what_to_write(title: str, word: str) -> None:
    found = load(HEAD + PLACES[title].replace("WORD", word), KINDS).diagnostics
    assert [(one.code, one.fix) for one in found] == [("unknown-key", find_foreign(title, word))]


def test_none_of_them_is_a_key_of_the_grammar() -> None:
    known: dict[str, set[str]] = {"a playbook": set(PLAYBOOK.keys), "a task": set(TASK_KEYS)}
    for shape in (PLAYBOOK.keys["metadata"].shape, SHAPES["Step"]):
        assert isinstance(shape, Record)
        known[shape.title] = set(shape.keys)
    assert not [(title, word) for title, word in ALL if word in known[title]]


def test_a_word_in_place_of_the_body_is_not_also_a_missing_body() -> None:
    found = load(f"{HEAD}metadata: {{name: t}}\nworkflow: [{{step: a, run: ls}}]\n", KINDS).diagnostics
    assert [one.code for one in found] == ["unknown-key"]
    found = load(f"{HEAD}metadata: {{name: t}}\nsteps: [{{step: a}}]\n", KINDS).diagnostics
    assert [one.code for one in found] == ["unknown-key"]


def test_keys_that_the_answers_name_exist() -> None:
    words = {word for words in FOREIGN_KEYS.values() for fix in words.values() for word in re.findall(r"`(\w+):", fix)}
    steps = SHAPES["Step"]
    assert isinstance(steps, Record)
    known = {*steps.keys, *PLAYBOOK.keys, *TASK_KEYS, "lifecycle", "on_failure"}
    assert words <= known
