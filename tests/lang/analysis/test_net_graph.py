"""The net as a graph: reachability, circles, and what lies on every way."""

from noetl.lang.analysis.flow import dominators, find_cycles, reachable


def test_all_that_can_be_reached_is_found_circles_included() -> None:
    graph = {"a": ["b"], "b": ["a", "c"], "c": [], "d": ["a"]}
    assert reachable(graph, "a") == {"a", "b", "c"}


def test_circles_are_the_parts_in_which_a_token_can_go_round() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": ["e"], "e": ["d"], "f": []}
    assert sorted(sorted(part) for part in find_cycles(graph, graph)) == [["b", "c"], ["d", "e"]]  # type: ignore[type-var]


def test_a_long_chain_takes_no_stack() -> None:
    graph = {str(n): [str(n + 1)] for n in range(5000)} | {"5000": ["0"]}
    assert [len(part) for part in find_cycles(graph, graph)] == [5001]
    chain = graph | {"5000": []}
    assert dominators(chain, "0")["5000"] == "4999"


def test_a_dominator_lies_on_every_way() -> None:
    graph = {"s": ["a", "b"], "a": ["c"], "b": ["c"], "c": ["d"], "d": ["a"], "x": []}
    found = dominators(graph, "s")
    assert found == {"s": "s", "a": "s", "b": "s", "c": "s", "d": "c"}
