"""Graphs: reachability, strongly connected components, dominators, and trees that answer about ancestors."""

from __future__ import annotations

import random

from noetl.model.graph import Tree, find_components, find_dominators, find_reachable

Graph = dict[int, list[int]]


def random_graph(seed: int) -> Graph:
    chance = random.Random(seed)
    size = chance.randint(1, 9)
    return {node: [chance.randrange(size) for _ in range(chance.randint(0, 3))] for node in range(size)}


def reach(graph: Graph, start: int, *, without: int | None = None) -> set[int]:
    return find_reachable(lambda node: [one for one in graph[node] if one != without], [start])


def path_up(parents: dict[int, int], node: int) -> list[int]:
    path = [node]
    while parents[path[-1]] != path[-1]:
        path.append(parents[path[-1]])
    return path


def test_all_that_can_be_reached_is_found_circles_included() -> None:
    graph = {"a": ["b"], "b": ["a", "c"], "c": [], "d": ["a"]}
    assert find_reachable(graph.__getitem__, ["a"]) == {"a", "b", "c"}


def test_a_component_comes_after_those_that_it_leads_to() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": ["e"], "e": ["d"], "f": []}
    assert [sorted(part) for part in find_components(graph, graph)] == [["d", "e"], ["b", "c"], ["a"], ["f"]]


def test_nodes_of_a_component_reach_each_other_and_no_others_do() -> None:
    for seed in range(300):
        graph = random_graph(seed)
        reached = {node: reach(graph, node) for node in graph}
        found = {node: part for part in find_components(graph, graph) for node in part}
        for one in graph:
            for other in graph:
                mutual = other in reached[one] and one in reached[other]
                assert (other in found[one]) is mutual, f"seed {seed}"


def test_a_long_chain_takes_no_stack() -> None:
    graph = {str(n): [str(n + 1)] for n in range(5000)} | {"5000": ["0"]}
    assert [len(part) for part in find_components(graph, graph)] == [5001]
    chain = graph | {"5000": []}
    dominators = find_dominators(chain, "0")
    assert dominators["5000"] == "4999"
    tree = Tree(dominators, "0", order=int)
    assert tree.common("17", "4000") == "17"
    assert tree.child_towards("17", "4000") == "18"


def test_a_dominator_is_the_last_node_on_every_way() -> None:
    for seed in range(500):
        graph = random_graph(seed)
        found = find_dominators(graph, 0)
        assert found.keys() == reach(graph, 0)
        for node in found.keys() - {0}:
            passed = {one for one in found if one != node and node not in reach(graph, 0, without=one)} | {0}
            # Of two nodes on every way to a third, one is on every way to the other.
            last = max(passed, key=lambda one: len(path_up(found, one)))
            assert found[node] == last, f"seed {seed}, node {node}"


def test_a_tree_knows_ancestors_common_ancestors_and_the_way_down() -> None:
    for seed in range(300):
        parents = find_dominators(random_graph(seed), 0)
        tree = Tree(parents, 0, order=lambda node: -node)
        for one in parents:
            above = path_up(parents, one)
            for other in parents:
                assert tree.is_above(other, one) is (other in above)
                assert tree.common(one, other) == next(node for node in above if node in path_up(parents, other))
                if other in above[1:]:
                    assert tree.child_towards(other, one) == above[above.index(other) - 1]
