"""Rows, order, places and lines."""

import random
from functools import cache
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, strategies as st

from noetl.draw.layout import lay_out
from noetl.draw.layout.layered_graph import CARD, LABEL, Plan, Sizes, Spot, fold, islands, rank, walk
from noetl.draw.layout.placement import distance, spread
from noetl.draw.layout.routes import Curve, NetLayout, Point, Routes, Stack, find_ports
from noetl.draw.layout.row_order import Crossings, arrange, find_orders
from noetl.draw.picture import Link

edges_of_small_graphs = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=24)


def test_an_arc_to_where_the_walk_came_from_runs_back() -> None:
    order_found, back = walk(["a"], [("a", "b"), ("b", "c"), ("c", "a"), ("b", "b")])
    assert order_found == ["a", "b", "c"]
    assert back == {2, 3}


@given(edges_of_small_graphs)
def test_without_its_backward_arcs_a_graph_only_leads_down(edges: list[tuple[str, str]]) -> None:
    found, back = walk("abcdefgh", edges)
    forward = [edge for position, edge in enumerate(edges) if position not in back]
    rows = rank(found, forward, "a")
    assert sorted(found) == list("abcdefgh")
    assert all(rows[source] < rows[target] for source, target in forward)


def test_a_very_long_chain_is_walked_without_recursion() -> None:
    edges = [(str(number), str(number + 1)) for number in range(20_000)]
    found, back = walk(["0"], edges)
    assert len(found) == 20_001
    assert not back


def test_a_step_nothing_leads_to_stands_right_above_what_it_leads_to() -> None:
    rows = rank(["x", "a", "b", "c"], [("a", "b"), ("b", "c"), ("x", "c")], "a")
    assert rows == {"a": 0, "b": 1, "c": 2, "x": 1}


def test_a_crowded_row_is_folded_and_the_rest_moves_down() -> None:
    rows = {"top": 0, **{str(number): 1 for number in range(7)}, "mark": 1, "bottom": 2}
    folded = fold(rows, {"mark"}, 3)
    assert [folded[str(number)] for number in range(7)] == [1, 2, 3, 1, 2, 3, 1]
    assert (folded["top"], folded["mark"], folded["bottom"]) == (0, 1, 4)


def test_islands_are_what_no_arc_connects() -> None:
    assert islands("abcd", [("a", "c"), ("d", "c")]) == [["a", "c", "d"], ["b"]]


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 5), st.floats(0, 50)), min_size=1, max_size=20))
def test_spread_numbers_keep_their_distances(given_numbers: list[tuple[float, float, float]]) -> None:
    wanted, weights, distances = zip(*given_numbers, strict=True)
    places = spread(wanted, weights, distances)
    for (before, after), least in zip(pairwise(places), distances[1:], strict=True):
        assert after - before >= least - 1e-6


def test_spread_moves_nothing_without_need() -> None:
    assert spread([0, 50, 200], [1, 1, 1], [0, 10, 10]) == [0, 50, 200]


def test_spread_shares_the_way_by_weight() -> None:
    assert spread([0, 0], [3, 1], [0, 8]) == [-2, 6]


def graph(seed: int, count: int = 14) -> tuple[list[Link], list[str]]:
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(count)]
    links = [Link("s0", name) for name in names[1:]]
    for _ in range(count):
        source, target = chance.choices(names, k=2)
        links.append(Link(source, target, text="x", failure=chance.random() < 0.4))
    return links, names


@cache
def placed(seed: int, most_lanes: int = 10_000) -> tuple[Plan, list[list[Spot]]]:
    links, names = graph(seed)
    sizes = Sizes(dict.fromkeys(names, (220.0, 60.0)), [(90.0, 22.0) if link.text else None for link in links])
    plan = Plan(links, sizes, names, most_lanes=most_lanes)
    return plan, arrange(plan)


@pytest.mark.parametrize("seed", range(8))
def test_every_spot_has_a_place_in_its_row(seed: int) -> None:
    plan, rows = placed(seed)
    assert sorted(spot.index for row in rows for spot in row) == list(range(len(plan.spots)))
    assert all(len({spot.row for spot in row}) == 1 for row in rows)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_overlaps_in_a_row(seed: int) -> None:
    _, rows = placed(seed)
    for row in rows:
        for left, right in pairwise(row):
            assert right.x - left.x >= distance(left, right) - 0.01


@pytest.mark.parametrize("seed", range(8))
def test_exchanging_neighbours_never_adds_crossings(seed: int) -> None:
    plan, rows = placed(seed)
    lines = Crossings(plan)
    assert lines.count(lines.exchange_neighbours(rows, passes=5)) <= lines.count(rows) + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_sorting_by_neighbours_finds_no_more_crossings_than_the_walk(seed: int) -> None:
    plan, _ = placed(seed)
    lines = Crossings(plan)
    (without_sorting, *_), found = (find_orders(plan, lines, rounds=rounds, most=6) for rounds in (0, 8))
    counts = [lines.count(rows) for rows in found]
    assert counts == sorted(counts)
    assert counts[0] <= lines.count(without_sorting)


def test_two_crossing_arcs_are_uncrossed() -> None:
    links = [Link("s", "a"), Link("s", "b"), Link("a", "y"), Link("b", "x"), Link("s", "c"), Link("c", "x")]
    sizes = Sizes(dict.fromkeys("sabcxy", (100.0, 40.0)), [None] * len(links))
    plan = Plan(links, sizes, list("sabcxy"), most_lanes=100)
    assert Crossings(plan).count(arrange(plan)) == 0


def test_a_layout_says_where_everything_is_in_numbers_alone() -> None:
    links, names = graph(3)
    sizes = Sizes(dict.fromkeys(names, (220.0, 60.0)), [(90.0, 22.0) if link.text else None for link in links])
    layout = lay_out(links, sizes)
    assert list(layout.boxes) == names
    assert len(layout.arcs) == len(links)
    assert msgspec.json.decode(msgspec.json.encode(layout), type=NetLayout) == layout
    for box in layout.boxes.values():
        assert box.x >= 0
        assert box.x + box.width <= layout.width + 0.01
        assert box.y + box.height <= layout.height + 0.01
    for arc, link in zip(layout.arcs, links, strict=True):
        source, (x, y) = layout.boxes[link.source], arc.curve.start
        assert source.x <= x <= source.x + source.width
        assert y == source.y + source.height
        assert (arc.label is not None) == bool(link.text)


@pytest.mark.parametrize("seed", range(8))
def test_no_line_runs_behind_a_card_or_through_a_label_of_another(seed: int) -> None:
    plan, rows = placed(seed)
    ports = find_ports(plan)
    routes = Routes(plan, Stack(plan, rows, ports), ports)
    boxes = [spot for spot in plan.spots if spot.kind in (CARD, LABEL)]
    paths = [(routes.wire(position), wire.label) for position, wire in enumerate(plan.wires)]
    paths += [(routes.trunk(position), None) for position in range(len(plan.trunks))]
    for curve, own in paths:
        for x, y in samples(curve):
            for box in boxes:
                if box is not own:
                    inside = abs(x - box.x) < box.width / 2 - 1 and box.y + 1 < y < box.y + box.height - 1
                    assert not inside, (curve, box.name, box.kind)


@pytest.mark.parametrize("seed", range(4))
def test_arcs_that_cannot_afford_a_lane_are_drawn_all_the_same(seed: int) -> None:
    plan, rows = placed(seed, most_lanes=0)
    ports = find_ports(plan)
    routes = Routes(plan, Stack(plan, rows, ports), ports)
    assert any(wire.direct for wire in plan.wires)
    assert all(routes.wire(position).pieces for position in range(len(plan.wires)))


def test_a_straight_chain_is_drawn_straight() -> None:
    links = [Link("a", "b"), Link("b", "c", text="x"), Link("b", "f", failure=True)]
    sizes = Sizes(dict.fromkeys("abcf", (220.0, 60.0)), [None, (90.0, 22.0), None])
    plan = Plan(links, sizes, list("abcf"), most_lanes=100)
    arrange(plan)
    assert plan.cards["a"].x == pytest.approx(plan.cards["b"].x)
    assert plan.cards["b"].x == pytest.approx(plan.cards["c"].x)


def samples(curve: Curve) -> list[Point]:
    """Points along a curve."""
    points: list[Point] = []
    at = curve.start
    for piece in curve.pieces:
        points += [bezier([at, *piece], step / 40) for step in range(41)]
        at = piece[-1]
    return points


def bezier(corners: list[Point], along: float) -> Point:
    while len(corners) > 1:
        corners = [(a[0] + (b[0] - a[0]) * along, a[1] + (b[1] - a[1]) * along) for a, b in pairwise(corners)]
    return corners[0]
