"""Mermaid, Graphviz, and what they share."""

import re

import pytest
from hypothesis import given, settings, strategies as st
from netbuilding import FAILED, arc, net, step, task

from noetl.draw import FORMATS, draw
from noetl.lang.loader import load
from noetl.model.net import Net
from noetl.tools.registry import ToolKinds

hostile = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [
        '"',
        "\\",
        '\\"',
        "%%{init: {}}%%",
        "`x`",
        "end",
        "subgraph",
        "\\N",
        "&lt;",
        "<b>",
        "#quot;",
        "style: #1;",
        "]]",
        "-->",
    ]
)
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: weather, path: demo/weather}
workflow:
  - step: start
    next: {arcs: [{step: fetch}]}
  - step: fetch
    desc: Ask for the weather
    loop: {in: [1, 2], iterator: city, spec: {mode: parallel}}
    tool: {kind: http, url: "https://example.org/{{ iter.city }}"}
    next:
      arcs:
        - {step: end, when: "{{ event.name == 'loop.done' }}"}
        - {terminate: failed, when: "{{ event.name == 'step.failed' }}"}
  - step: end
"""


def branching() -> Net:
    return net(
        step("start", "http", to=(arc("end", "ctx.n > 3"), arc("repair", FAILED), "end")),
        step(
            "repair",
            *(task(f"t{number}", "python") for number in range(8)),
            to=("start", arc(None, terminate="failed")),
        ),
        step("lost", "wait"),
        step("end"),
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_draws_every_step(kind: str) -> None:
    text = draw(branching(), kind)
    assert all(name in text for name in branching().steps)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_net_gives_the_same_text(kind: str) -> None:
    assert draw(branching(), kind) == draw(branching(), kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_playbook_can_be_drawn_from_its_text(kind: str) -> None:
    loaded = load(PLAYBOOK, ToolKinds())
    assert loaded.net is not None
    assert "for each city · parallel ×16" in draw(loaded.net, kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_says_what_an_arc_cancels_and_that_all_are_taken(kind: str) -> None:
    text = draw(net(step("a", to=(arc("b", cancel=("c",)), "c"), mode="inclusive"), step("b"), step("c")), kind)
    assert "cancels c" in text
    assert re.search("every match", text)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="there are svg, mermaid, dot"):
        draw(branching(), "png")


def test_mermaid_is_a_flowchart_from_top_to_bottom() -> None:
    lines = draw(branching(), "mermaid").splitlines()
    assert lines[0] == "flowchart TD"
    assert '  s3_end(["end"])' in lines
    assert "  begin(( )) --> s0_start" in lines
    assert '  s0_start -->|"1 · ctx.n #62; 3"| s3_end' in lines
    assert '  s0_start -.->|"2 · step.failed"| s1_repair' in lines
    assert '  s0_start -->|"otherwise"| s3_end' in lines


def test_mermaid_colours_failure_arcs_by_their_position() -> None:
    lines = [line.strip() for line in draw(branching(), "mermaid").splitlines()]
    links = [line for line in lines if re.search(r" (-->|-\.->)", line)]
    styled = next(line for line in lines if line.startswith("linkStyle "))
    assert [position for position, line in enumerate(links) if "-.->" in line] == [int(styled.split()[1])]


def test_long_pipelines_are_elided_in_plain_text() -> None:
    text = draw(branching(), "mermaid")
    assert "… 3 more" in text
    assert "t4" not in text


@settings(max_examples=80, deadline=None)
@given(hostile, hostile, hostile, hostile)
def test_mermaid_lines_hold_nothing_but_safe_characters(name: str, kind: str, desc: str, condition: str) -> None:
    text = draw(net(step(f"a{name}", kind, desc=desc, to=(arc(f"b{kind}", condition),)), step(f"b{kind}")), "mermaid")
    node = r"s\d+_\w*"
    label = r'"(?:[^\x00-\x7f]|[A-Za-z0-9 .,\-_/=+!]|#\d+;|<br/>)*"'
    allowed = (
        rf"{node}(?:\(\[{label}\]\)|\({label}\)|\{{\{{{label}\}}\}})",
        rf"(?:{node}|begin\(\( \)\)) (?:-->|-\.->)(?:\|{label}\|)? {node}",
        r"classDef \w+ [\w:,#.]+",
        r"class [\w,]+ \w+",
        r"linkStyle [\d,]+ [\w:,#]+",
    )
    first, *lines = text.splitlines()
    assert first == "flowchart TD"
    assert all(any(re.fullmatch(pattern, line.strip()) for pattern in allowed) for line in lines), text


QUOTED = r'"(?:[^"\\]|\\.)*"'


@settings(max_examples=80, deadline=None)
@given(hostile, hostile, hostile, hostile)
def test_graphviz_statements_end_where_they_should(name: str, kind: str, desc: str, condition: str) -> None:
    text = draw(
        net(step(f"a{name}", kind, desc=desc, to=(arc(f"b{kind}", condition),)), step(f"b{kind}"), name=desc), "dot"
    )
    bare = re.sub(QUOTED, "Q", text)
    first, *lines, last = bare.splitlines()
    assert (first, last) == ("digraph Q {", "}")
    pair = r"\w+=(?:Q|[\w.]+)"
    statement = rf"(?:graph|node|edge|begin|s\d+_\w*)(?: -> s\d+_\w*)?(?: \[{pair}(?:, {pair})*\])?;"
    assert all(re.fullmatch(statement, line.strip()) for line in lines), text


def test_graphviz_escapes_what_it_would_interpret() -> None:
    text = draw(net(step("a", "http", desc='say "\\N" & &lt;')), "dot")
    assert 'http · say \\"\\\\N\\" &amp; &amp;lt;' in text


def test_graphviz_draws_failures_dashed_and_the_end_twice() -> None:
    text = draw(branching(), "dot")
    assert re.search(r's0_start -> s1_repair \[.*label="2 · step.failed", style="dashed"', text)
    assert re.search(r's3_end \[.*peripheries="2"', text)
