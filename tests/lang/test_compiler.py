"""The net: steps by name, where it starts, and who leads to whom."""

from noetl.lang.building.playbook import compile_net
from noetl.model.diagnostics import Span
from noetl.model.net import Net
from noetl.model.playbook import Arc, Playbook, Router, Step

AT = Span(1, 1, 1, 1)


def net_of(*steps: tuple[str, list[str | None]]) -> Net:
    made = [Step(name, AT, router=Router(arcs=tuple(Arc(to, AT) for to in targets))) for name, targets in steps]
    return compile_net(Playbook("t", "t", tuple(made)))


def test_it_starts_with_the_step_named_start_or_with_the_first() -> None:
    assert net_of(("a", []), ("b", [])).start == "a"
    assert net_of(("a", []), ("start", [])).start == "start"


def test_incoming_arcs_are_listed_in_the_order_of_the_document() -> None:
    net = net_of(("a", ["c", "b"]), ("b", ["c"]), ("c", []))
    assert {name: [one.source for one in arcs] for name, arcs in net.incoming.items()} == {
        "a": [],
        "b": ["a"],
        "c": ["a", "b"],
    }


def test_arcs_that_lead_nowhere_are_left_out() -> None:
    assert {name: len(arcs) for name, arcs in net_of(("a", ["nope", None, "a"])).incoming.items()} == {"a": 1}


def test_of_steps_with_one_name_the_first_counts() -> None:
    net = net_of(("a", ["b"]), ("b", []), ("a", []))
    assert list(net.steps) == ["a", "b"]
    assert len(net.steps["a"].router.arcs) == 1
