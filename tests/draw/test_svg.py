"""The picture as SVG."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st
from netbuilding import AT, FAILED, Expression, arc, chain, fan, hubs, net, ring, step, task, when

from noetl.draw import draw
from noetl.draw.text_fitting import width
from noetl.model.net import Net
from noetl.model.playbook import Admission, AdmitRule, Assignment, Join, LayeredValue, Loop, Synthesis

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture_of: Net) -> ET.Element:
    return ET.fromstring(draw(picture_of, "svg"))


def having(root: ET.Element, css: str) -> list[ET.Element]:
    return [found for found in root.iter() if css in found.get("class", "").split()]


def texts(root: ET.Element) -> list[str]:
    return ["".join(found.itertext()) for found in root.iter(f"{SVG}text")]


def tooltip(root: ET.Element) -> str:
    return (root.findtext(f"{SVG}title")) or ""


def rich() -> Net:
    """A net with one of everything."""
    return net(
        step("start", to=("users", "orders"), mode="inclusive", desc="Begin here.\nMore."),
        step(
            "users",
            task("init", "noop"),
            task("fetch", "http", retry=5),
            task("more", "noop", jump="fetch"),
            loop=Loop(Expression("x"), "city", AT, mode="parallel", max_in_flight=50),
            to=("join", arc("alarm", FAILED)),
        ),
        step("orders", task("orders", "postgres", retry=3), timeout=600.0, to=("join",)),
        step(
            "join",
            "python",
            admission=Admission(join=Join({"users": 1, "orders": 1}, None, "keep", AT), fire="once"),
            to=(arc("big", "ctx.n > 9"), arc("join", "ctx.n > 5"), arc("small")),
        ),
        step("big", "transfer", synthesize=Synthesis(Expression("x"), 7), to=("users",)),
        step("small", "some_plugin", deadline=3600.0, to=("end", arc(None, FAILED, terminate="failed"))),
        step("alarm", "http", to=(arc(None, None, terminate="completed", cancel=("users", "orders")),)),
        step("lost", "shell", to=("end",)),
        step("alone", "wait"),
        step("end"),
        description="All there is",
    )


def test_every_step_appears_with_its_name() -> None:
    root = drawn(rich())
    assert [found.get("data-step") for found in having(root, "step")] == [
        "start", "users", "orders", "join", "big", "small", "alarm", "lost", "end", "alone",
    ]  # fmt: skip
    assert set(rich().steps) <= set(texts(root))


def test_every_arc_appears_between_its_steps() -> None:
    arcs = {(found.get("data-from"), found.get("data-to")) for found in having(drawn(rich()), "arc")}
    wanted = {
        (each.name, leading.step)
        for each in rich().steps.values()
        for leading in each.router.arcs
        if leading.step is not None
    }
    assert arcs == wanted | {("small", "end:failed"), ("alarm", "end:completed")}


def test_every_arc_is_drawn_even_when_two_lead_to_the_same_step() -> None:
    root = drawn(net(step("a", to=(arc("b", "x"), arc("b", "y"), "b"), mode="inclusive"), step("b")))
    assert len(having(root, "arc")) == 3


def test_the_document_is_named_for_screen_readers() -> None:
    root = drawn(rich())
    assert root.get("role") == "img"
    assert (root.findtext(f"{SVG}title"), root.get("aria-labelledby")) == ("demo", "noetl-title noetl-desc")
    assert "10 steps" in (root.findtext(f"{SVG}desc") or "")


def test_the_document_needs_nothing_from_outside() -> None:
    text = draw(rich(), "svg")
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "<script" not in text
    assert "@import" not in text


def test_there_is_a_look_for_dark_pages() -> None:
    assert "@media (prefers-color-scheme:dark)" in draw(rich(), "svg")


def test_every_rule_of_the_style_sheet_is_confined_to_the_picture() -> None:
    style = drawn(rich()).findtext(f"{SVG}style") or ""
    selectors = [line.partition("{")[0] for line in style.splitlines() if "{" in line and not line.startswith("@")]
    assert all(one.startswith(".noetl-net ") for line in selectors for one in line.split(","))


def test_every_icon_that_is_used_is_defined() -> None:
    root = drawn(rich())
    defined = {found.get("id") for found in root.iter() if found.get("id")}
    used = {found.get("href", "")[1:] for found in root.iter(f"{SVG}use")}
    assert used
    assert used <= defined


@pytest.mark.parametrize(
    "said",
    [
        "for each city · parallel ×50",
        "join all 2",
        "once",
        "timeout 10 min",
        "deadline 1 h",
        "retry ×3",
        "adds up to 7 steps",
        "otherwise",
        "cancels users, orders",
        "ctx.n > 9",
        "step.failed",
        "3 tasks",
        "init",
        "×5",
        "Never reached from the start",
    ],
)
def test_the_picture_says(said: str) -> None:
    assert said in texts(drawn(rich()))


def test_a_description_is_shown_by_its_first_line_and_told_in_full() -> None:
    root = drawn(rich())
    start = having(root, "step")[0]
    assert "Begin here." in texts(start)
    assert tooltip(start).startswith("start\nBegin here.\nMore.")


def test_conditional_arcs_of_which_the_first_match_wins_are_numbered() -> None:
    root = drawn(rich())
    assert [found.text for found in having(root, "digit")] == ["1", "2", "1"]  # the last one is in the legend


def test_a_single_conditional_arc_has_no_number() -> None:
    assert not having(drawn(net(step("a", to=(arc("b", "x"),)), step("b"))), "digit")


def test_arcs_of_which_every_match_is_taken_have_no_number_but_a_bar() -> None:
    root = drawn(net(step("a", to=(arc("b", "x"), arc("c", "y")), mode="inclusive"), step("b"), step("c")))
    assert not having(root, "digit")
    assert having(having(root, "step")[0], "bar")


def test_a_failure_arc_looks_different() -> None:
    failures = [(found.get("data-from"), found.get("data-to")) for found in having(drawn(rich()), "failure")]
    assert ("users", "alarm") in failures
    assert ("users", "join") not in failures


def test_a_long_condition_is_elided_and_told_in_full() -> None:
    condition = "workload.a.long.path.to.somewhere == 'a literal that goes on and on' and ctx.other"
    root = drawn(net(step("a", to=(arc("b", condition),)), step("b")))
    assert condition not in texts(root)
    assert any(condition in tooltip(found) for found in having(root, "arc"))
    assert any(condition in tooltip(found) for found in having(root, "label"))


def test_a_long_pipeline_is_elided_in_the_middle() -> None:
    root = drawn(net(step("a", *(task(f"t{number}", "http") for number in range(9)))))
    said = texts(root)
    assert [f"t{number}" in said for number in range(9)] == [True] * 3 + [False] * 4 + [True] * 2
    assert "4 more" in said


def test_tasks_that_sugar_made_are_not_shown() -> None:
    root = drawn(net(step("a", task("choose_1", "noop", silent=True), task("real", "http"), task("end", "noop"))))
    assert "choose_1" not in texts(root)
    assert "real" in texts(root)


def test_steps_that_are_never_reached_are_faded() -> None:
    faded = {found.get("data-step") for found in having(drawn(rich()), "faded") if found.get("data-step")}
    assert faded == {"lost", "alone"}


def test_the_start_and_both_ends_are_marked() -> None:
    root = drawn(rich())
    assert len(having(root, "begin")) == 1
    assert sorted(tooltip(found) for found in having(root, "mark")) == [
        "The execution ends here: completed.",
        "The execution ends here: failed.",
    ]
    assert len(having(root, "ring")) == 1


def test_the_legend_explains_only_what_is_there() -> None:
    assert not having(drawn(net(step("a", to=("b",)), step("b"))), "legend")
    assert "after a failure" in texts(drawn(rich()))


def test_the_same_net_gives_the_same_text() -> None:
    assert draw(rich(), "svg") == draw(rich(), "svg")


def test_an_empty_net_can_be_drawn() -> None:
    assert texts(drawn(net()))[0] == "demo"


def test_a_step_that_leads_only_to_itself_can_be_drawn() -> None:
    assert len(having(drawn(net(step("a", "http", to=(arc("a", "ctx.n < 3"),)))), "label")) == 1


hostile = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [
        "]]>",
        "<!--",
        "</svg>",
        '"><script>',
        "&amp;&#0;",
        "\x00\x1b[31m",
        "\ud800",
        "\u202e",
        "a\u0301" * 9,
        "🏴‍☠️",
        "%%{init}",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(hostile, min_size=8, max_size=8))
def test_hostile_texts_give_well_formed_xml_without_foreign_elements(given_texts: list[str]) -> None:
    name, first, second, kind, desc, condition, iterator, cancelled = given_texts
    root = drawn(
        net(
            step(
                f"a{first}",
                task(second, kind, jump=first or "x"),
                kind,
                desc=desc,
                loop=Loop(Expression("x"), iterator, AT),
                admission=Admission(rules=(AdmitRule(when(condition), True, AT),)),
                to=(arc(f"b{second}", condition, cancel=(cancelled,)), arc(None, condition, terminate=kind)),
            ),
            step(f"b{second}", to=(arc(f"a{first}", condition),)),
            name=name,
            description=desc,
        )
    )
    known = "svg title desc style defs marker path rect g text tspan use circle"
    assert {found.tag for found in root.iter()} <= {f"{SVG}{tag}" for tag in known.split()}


SIZES = {"name": 14.0, "title": 18.0, "row": 12.5, "digit": 11.0}


@settings(max_examples=40, deadline=None)
@given(st.lists(hostile, min_size=4, max_size=4))
def test_no_text_is_wider_than_its_card(given_texts: list[str]) -> None:
    name, first, desc, kind = (text * 3 for text in given_texts)
    root = drawn(
        net(
            step(
                f"a{name}",
                task(first, kind, retry=3, jump=desc),
                task(desc, "http"),
                desc=desc,
                admission=Admission(rules=(AdmitRule(when(first), True, AT),)),
            ),
            step(f"b{name}", desc=desc, loop=Loop(Expression("x"), first, AT)),
            step(f"c{name}", kind, desc=desc),
        )
    )
    for card in having(root, "step"):
        edge = float(having(card, "card")[0].get("width", "0"))
        badges = [(badge, float(having(badge, "tint")[0].get("width", "0"))) for badge in having(card, "badge")]
        inside = {id(found) for badge, _ in badges for found in badge.iter(f"{SVG}text")}
        boxes = [(found, edge) for found in card.iter(f"{SVG}text") if id(found) not in inside]
        boxes += [(found, wide) for badge, wide in badges for found in badge.iter(f"{SVG}text")]
        for found, wide in boxes:
            css = found.get("class", "")
            room = width("".join(found.itertext()), SIZES.get(css, 12.0), bold=css == "name")
            left = float(found.get("x", "0")) - (room if found.get("text-anchor") == "end" else 0)
            assert left >= 0
            assert left + room <= wide + 0.1


@pytest.mark.parametrize(
    "large", [chain(800), fan(700), ring(700), hubs(700), net(*(step(f"s{number}") for number in range(700)))]
)
def test_large_nets_are_drawn_with_names_only(large: Net) -> None:
    root = drawn(large)
    assert len(having(root, "step")) == len(large.steps)
    assert len(having(root, "arc")) == sum(len(each.router.arcs) for each in large.steps.values())
    assert not having(root, "label")


def test_the_hints_of_a_single_task_are_spelled_out() -> None:
    single = task("a", "http", retry=4, jump="a", spec={"timeout": LayeredValue(30, "task.spec")})
    assert {"retry ×4", "jumps to a", "timeout 30 s"} <= set(texts(drawn(net(step("a", single)))))


def test_a_loop_that_goes_on_after_failures_says_so() -> None:
    looping = step("a", "http", loop=Loop(Expression("x"), "city", AT), failure_mode="best_effort")
    assert {"for each city", "best effort"} <= set(texts(drawn(net(looping))))


def test_an_arc_to_nowhere_is_left_out() -> None:
    assert not having(drawn(net(step("a", to=("missing",)))), "arc")


def test_what_an_arc_sets_is_told() -> None:
    written = Assignment("ctx", ("total", "sum"), Expression("x"), AT)
    root = drawn(net(step("a", to=(arc("b", set=(written,)),)), step("b")))
    assert "sets ctx.total.sum" in tooltip(having(root, "arc")[0])


def test_a_wide_net_is_folded_into_several_rows() -> None:
    root = drawn(fan(60))
    assert float(root.get("width", "0")) < 60 * 228
