"""What messages about templates say beside that something is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError, TemplateLimit
from noetl.expr.sandbox.evaluation import Budget
from noetl.expr.templates import template

SCOPES: dict[str, Any] = {
    "ctx": {
        "user": {"name": "ann", "mail": "a@b"},
        "n": "5",
        "word": "abc",
        "none": None,
        "list": [1],
        "text": "x" * 90,
    }
}


def said(source: str, **more: Any) -> str:
    with pytest.raises(TemplateError) as caught:
        template(source).evaluate(SCOPES, **more)
    return caught.value.message


@pytest.mark.parametrize(
    ("source", "end"),
    [
        ("{{ ctx.user.nam }}", "`nam` is missing in `ctx.user`; did you mean `name`?"),
        ("{{ ctx.user['phone'] }}", "`phone` is missing in `ctx.user`; it has `name`, `mail`"),
        ("{{ ctx.none.x }}", "`x` is missing in `ctx.none`, which is null"),
        ("{{ ctx.word.x }}", "`x` is missing in `ctx.word`, which is text"),
        ("{{ ctx.list[3] }}", "`3` is missing in `ctx.list`, which is a list of 1"),
        ("{{ ctx.n + 1 }}", "`+` cannot take the text '5' and the number 1; `| int` or `| float` makes a number of text"),
        ("{{ 1 + ctx.word }}", "`+` cannot take the number 1 and the text 'abc'; `~` joins values to text"),
        ("{{ ctx.none - 1 }}", "`-` cannot take null and the number 1; `| default(0, true)` puts a value in place of null"),
        ("{{ ctx.n > 3 }}", "`>` cannot take the text '5' and the number 3; `| int` or `| float` makes a number of text"),
        ("{{ ctx.user + ctx.list }}", "`+` cannot take a map of 2 and a list of 1"),
        ("{{ ctx.text - 1 }}", "`-` cannot take a text of 90 characters and the number 1"),
    ],
)  # fmt: skip
def test_a_message_says_what_there_is_and_the_way_out(source: str, end: str) -> None:
    assert said(source).endswith(end)


def test_a_limit_is_told_with_the_way_out() -> None:
    assert "a template may make 100 characters in all; do it in a `kind: python` task" in said(
        "{{ 'x' * 200 }}", budget=Budget(size=100)
    )
    assert "it ran too long: a template may take about a tenth of a second" in said(
        "{{ range(1000) | list | length }}", budget=Budget(steps=10)
    )
    assert "a number grew too large: it has more than 4,214 digits" in said("{{ 10 ** 9999 }}")


def test_of_several_expressions_the_one_that_used_most_is_blamed() -> None:
    text = template("{{ ctx.user.name }} {{ 'x' * 95 }} {{ ctx.word ~ 'd' }}{{ 'yy' * 3 }}")
    with pytest.raises(TemplateLimit) as caught:
        text.evaluate(SCOPES, Budget(size=100))
    assert caught.value.message.startswith("in `{{ 'x' * 95 }}`: it grew too large")
