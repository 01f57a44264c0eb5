"""Each `{{ … }}` in a command arrives as one unchanged word, proved by real shells."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.embedded.shell_template import compile_command

SHELLS = [shell for shell in ("/bin/sh", "/bin/bash") if shutil.which(shell)]
NASTY = "a b\"c'd$HOME`x`\\ $(id) ${x} \\n}; #!*{\t~é\n|&<>(x)[y]=%s -- end'"


def output(command: str, shell: str = "/bin/sh") -> str:
    done = subprocess.run([shell, "-c", command], capture_output=True, check=False, timeout=300)
    assert done.stderr == b"", (command, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape")


#: commands that print exactly their value
PRINTING = [
    "printf %s {{ v }}",
    "printf '%s' '{{ v }}'",
    'printf "%s" "{{ v }}"',
    'x={{ v }}; printf %s "$x"',
    'printf %s "$nope{{ v }}"',
    "printf %s $nope{{ v }}",
    "printf %s \\{{ v }}",
    'printf "%s" "$(printf %s {{ v }}x)" | head -c -1',
    "# don't mind `this` {{ v }}\nprintf %s {{ v }} # nor {{ v }}",
    'f() { printf %s "$1"; }; f {{ v }}',
    "case {{ v }} in zz) echo;; *) printf %s {{ v }};; esac",
    "(cd . && printf %s {{ v }})",
    "printf %s ${nope:-{{ v }}} > /dev/null; printf %s {{ v }}",
    "cat <<EOF | head -c -1\n{{ v }}\nEOF\n",
    "cat <<'EOF' | head -c -1\n{{ v }}\nEOF\n",
    "cat <<-EOF | head -c -1\n\t$nope{{ v }}\n\tEOF\n",
    "cat <<A <<\\B | head -c -1\n{{ v }} first\nA\n{{ v }}\nB\n",
    "if [ {{ v }} = {{ v }} ]; then printf %s {{ v }}; fi",
    "set -- {{ v }}{{ v }}; printf %s {{ v }}",
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", PRINTING)
def test_a_nasty_value_arrives_unchanged_wherever_it_stands(command: str, shell: str) -> None:
    assert output(compile_command(command).render({"v": NASTY}), shell) == NASTY


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "command",
    [
        "printf %s `printf %s {{ v }}` >/dev/null; printf %s {{ v }}",
        'printf %s "`printf %s {{ v }}`"',
        'printf "%s" "`printf "%s" "{{ v }}"`"',
        "printf %s \"`printf %s '{{ v }}'`\"",
    ],
)
def test_backticks_take_a_layer_of_backslashes_away(command: str, shell: str) -> None:
    assert output(compile_command(command).render({"v": NASTY}), shell) == NASTY


@pytest.mark.parametrize("shell", SHELLS)
def test_a_default_inside_double_quotes_takes_anything_but_a_single_quote(shell: str) -> None:
    command = compile_command('printf %s "${nope:-{{ v }}}"')
    value = NASTY.replace("'", "")
    assert output(command.render({"v": value}), shell) == value
    with pytest.raises(TemplateError, match="single quote"):
        command.render({"v": "it's"})


values = st.text(
    st.one_of(
        st.sampled_from("'\"\\$`(){}[]<>|&;#!*?~ \t\n-=%a0é"),
        st.characters(exclude_characters="\x00\x01", exclude_categories=["Cs"]),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=3, max_size=3))
def test_any_text_arrives_as_one_unchanged_word(texts: list[str]) -> None:
    command = compile_command(
        'printf \'%s\\001\' {{ a }} "{{ b }}" \'{{ c }}\' x{{ a }}y "$nope{{ b }}${nope}" "$(printf %s {{ c }}x)"; # {{ a }}\n'
    )
    a, b, c = texts
    found = output(command.render({"a": a, "b": b, "c": c}))
    assert found.split("\x01")[:-1] == [a, b, c, f"x{a}y", b, f"{c}x"]


@settings(max_examples=40, deadline=None)
@given(values)
def test_any_text_but_its_end_mark_stands_in_a_here_document(text: str) -> None:
    command = compile_command("cat <<E1\n<{{ v }}>\nE1\ncat <<'E2'\n<{{ v }}>\nE2\n")
    assert output(command.render({"v": text})) == f"<{text}>\n" * 2


def test_a_value_cannot_end_a_here_document() -> None:
    for command in ("cat <<EOF\n{{ v }}\nEOF", "cat <<'EOF'\n{{ v }}\nEOF"):
        with pytest.raises(TemplateError, match="EOF"):
            compile_command(command).render({"v": "a\nEOF\nid"})


@pytest.mark.parametrize(
    ("command", "scopes", "expected"),
    [
        ("printf %s {{ v }}", {"v": [1, {"a": None}]}, '[1, {"a": null}]'),
        ("printf '<%s>' {{ v }}", {"v": None}, "<>"),
        ("printf %s {{ v }}", {"v": True}, "true"),
        ("printf %s {{ v }}", {"v": 2.5}, "2.5"),
        ("printf %s {{ v | raw }}", {"v": "a; printf b"}, "ab"),
        ("printf %s $(( {{ v }} << 2 ))", {"v": 5}, "20"),
        ('printf %s "${{ v }}"', {"v": "HOME"}, "$HOME"),
        ("printf %s ${{ v }}", {"v": "HOME"}, "$HOME"),
        ('printf %s "\\{{ v }}"', {"v": "n"}, "\\n"),
        ("printf %s {{ v }}>/dev/null; printf ok", {"v": "2"}, "ok"),
        ("{% for x in v %}printf %s {{ x }};{% endfor %}", {"v": ["a b", "$c"]}, "a b$c"),
        ("printf %s '{{ v }}'{% if true %}; printf '%s' \"{{ v }}\"{% endif %}", {"v": "a'b"}, "a'ba'b"),
        ('printf %s "$(case x in x) printf %s {{ v }};; esac)"', {"v": "plain-1.0"}, "plain-1.0"),
    ],
)
def test_values_are_words(command: str, scopes: dict[str, Any], expected: str) -> None:
    assert output(compile_command(command).render(scopes)) == expected


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("echo $(( {{ v }} ))", "a[$(id)]"),
        ("(( x = {{ v }} ))", "a[$(id)]"),
        ("echo $[ {{ v }} ]", "a[$(id)]"),
        ("echo ${x[{{ v }}]}", "$(id)"),
        ("echo ${x:{{ v }}}", "$(id)"),
        ('echo "$(case x in x) echo {{ v }};; esac)"', "$(id)"),
        ("echo 'open {{ v }}", "a b"),
        ('echo "open {{ v }}', "a b"),
        ("echo $'a\\'b{{ v }}'", "a b"),
        ("cat <<{{ v }}\nx", "a b"),
        ("cat <<EOF\n$(echo {{ v }})\nEOF", "a b"),
        ("echo `echo \\`echo {{ v }}\\``", "a b"),
        ("echo {{ v }}", "a\x00b"),
        ("echo \x00 {{ v }}", "a"),
    ],
)
def test_where_a_value_could_be_taken_for_code_only_harmless_ones_are_let_in(command: str, value: str) -> None:
    with pytest.raises(TemplateError):
        compile_command(command).render({"v": value})


def test_errors_of_templates_are_told() -> None:
    with pytest.raises(UndefinedValue, match=r"\{\{ ctx.nope \}\}"):
        compile_command("echo {{ ctx.nope }}").render({"ctx": {}})
    with pytest.raises(TemplateError):
        compile_command("echo {% for x in %}").render({})


def test_reads_problems_and_filters_are_told_comments_left_out() -> None:
    found = compile_command("echo {{ a.b | raw }} # {{ c.d }}\necho '{{ e | nope }}'")
    assert [read.path for read in found.reads] == [("a", "b"), ("e",)]
    assert found.filters == {"raw", "nope"}
    assert [problem.code for problem in found.problems] == ["unknown-filter"]
    assert found.calls == ()
