"""Graphs: reachability, strongly connected components, dominators, and trees that answer about ancestors."""

from __future__ import annotations

import random

from noetl.model.graph import Tree, find_components, find_dominators, find_reachable


def random_graph(seed: int) -> list[list[int]]:
    chance = random.Random(seed)
    size = chance.randint(1, 9)
    return [[chance.randrange(size) for _ in range(chance.randint(0, 3))] for _ in range(size)]


def reach(graph: list[list[int]], start: int, *, without: int | None = None) -> set[int]:
    return find_reachable([[one for one in following if one != without] for following in graph], [start])


def path_up(parents: list[int], node: int) -> list[int]:
    path = [node]
    while parents[path[-1]] != path[-1]:
        path.append(parents[path[-1]])
    return path


def test_all_that_can_be_reached_is_found_circles_included() -> None:
    assert find_reachable([[1], [0, 2], [], [0]], [0]) == {0, 1, 2}


def test_a_component_comes_after_those_that_it_leads_to() -> None:
    graph = [[1], [2], [1, 3], [4], [3], []]
    assert [sorted(part) for part in find_components(graph)] == [[3, 4], [1, 2], [0], [5]]


def test_nodes_of_a_component_reach_each_other_and_no_others_do() -> None:
    for seed in range(300):
        graph = random_graph(seed)
        reached = [reach(graph, node) for node in range(len(graph))]
        found = {node: part for part in find_components(graph) for node in part}
        for one in range(len(graph)):
            for other in range(len(graph)):
                mutual = other in reached[one] and one in reached[other]
                assert (other in found[one]) is mutual, f"seed {seed}"


def test_a_long_chain_takes_no_stack() -> None:
    ring = [[node + 1] for node in range(5000)] + [[0]]
    assert [len(part) for part in find_components(ring)] == [5001]
    dominators = find_dominators([*ring[:-1], []], 0)
    assert dominators[5000] == 4999
    tree = Tree(dominators, 0, last=[False] * 5001)
    assert tree.find_common(17, 4000) == 17
    assert tree.child_towards(17, 4000) == 18


def test_a_dominator_is_the_last_node_on_every_way() -> None:
    for seed in range(500):
        graph = random_graph(seed)
        found = find_dominators(graph, 0)
        inside = {node for node, above in enumerate(found) if above >= 0}
        assert inside == reach(graph, 0)
        for node in inside - {0}:
            passed = {one for one in inside if one != node and node not in reach(graph, 0, without=one)} | {0}
            # Of two nodes on every way to a third, one is on every way to the other.
            last = max(passed, key=lambda one: len(path_up(found, one)))
            assert found[node] == last, f"seed {seed}, node {node}"


def test_a_tree_knows_ancestors_common_ancestors_and_the_way_down() -> None:
    for seed in range(300):
        parents = find_dominators(random_graph(seed), 0)
        tree = Tree(parents, 0, last=[node % 2 == 0 for node in range(len(parents))])
        inside = [node for node, above in enumerate(parents) if above >= 0]
        assert sorted(tree.order) == inside
        for one in inside:
            above = path_up(parents, one)
            for other in inside:
                assert tree.is_above(other, one) is (other in above)
                assert tree.find_common(one, other) == next(node for node in above if node in path_up(parents, other))
                if other in above[1:]:
                    assert tree.child_towards(other, one) == above[above.index(other) - 1]
