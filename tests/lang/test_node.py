"""Nodes: maps that keep their order, copies that share nothing, and data made into nodes and back."""

from noetl.lang.reading.node import MapNode, Scalar, copy, entry, make, plain_value, walk_nodes
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source


def tree(text: str) -> MapNode:
    root = read_yaml(text, Diagnostics(Source(text)))
    assert isinstance(root, MapNode)
    return root


def test_an_entry_of_the_same_name_is_replaced_where_it_stands() -> None:
    root = tree("a: 1\nb: 2\nc: 3\n")
    root.put(entry("b", make(9, near=root)))
    assert list(plain_value(root).items()) == [("a", 1), ("b", 9), ("c", 3)]
    assert root.changed


def test_a_new_entry_goes_to_the_end_or_where_it_is_told() -> None:
    root = tree("a: 1\nb: 2\n")
    root.put(entry("z", make(0, near=root)))
    root.put(entry("m", make(5, near=root)), at=root.position("b"))
    assert list(plain_value(root)) == ["a", "m", "b", "z"]


def test_a_position_that_nobody_has_is_the_end() -> None:
    assert tree("a: 1\nb: 2\n").position("c") == 2


def test_taking_what_is_not_there_changes_nothing() -> None:
    root = tree("a: 1\n")
    assert root.take("b") is None
    assert not root.changed
    taken = root.take("a")
    assert taken is not None
    assert (plain_value(taken.value), plain_value(root), root.changed) == (1, {}, True)


def test_renaming_keeps_the_place_and_the_value() -> None:
    root = tree("a: 1\nb: 2\nc: 3\n")
    root.rename("b", "x")
    assert root.rename("nope", "y") is None
    assert list(plain_value(root).items()) == [("a", 1), ("x", 2), ("c", 3)]


def test_a_map_can_be_changed_while_it_is_walked() -> None:
    root = tree("a: 1\nb: 2\nc: 3\n")
    for one in root:
        root.take(one.name)
    assert plain_value(root) == {}


def test_rewriting_to_the_same_text_is_no_change() -> None:
    root = tree("a: x\n")
    node = root.get("a")
    assert isinstance(node, Scalar)
    node.rewrite("x")
    assert not node.changed
    node.rewrite("y")
    assert (node.value, node.text, node.changed) == ("y", "y", True)


def test_made_nodes_borrow_a_place_and_keep_nodes_inside() -> None:
    root = tree("a: [1]\n")
    kept = root.get("a")
    assert kept is not None
    made = make({"k": [kept, None, True]}, near=kept)
    assert plain_value(made) == {"k": [[1], None, True]}
    assert all((node.start, node.end) == (3, 6) for node in walk_nodes(made) if node.changed)
    assert any(node is kept for node in walk_nodes(made))


def test_a_copy_shares_nothing_with_what_it_was_made_from() -> None:
    root = tree("a: {b: [1, {c: 2}]}\n")
    other = copy(root)
    assert plain_value(other) == plain_value(root)
    assert {id(node) for node in walk_nodes(other)}.isdisjoint({id(node) for node in walk_nodes(root)})


def test_walking_visits_everything_in_the_order_of_the_document() -> None:
    values = [node.value for node in walk_nodes(tree("a: 1\nb: [2, {c: 3}]\nd: 4\n")) if isinstance(node, Scalar)]
    assert values == [1, 2, 3, 4]


def test_a_merge_is_not_among_the_entries_but_remembered() -> None:
    root = tree("x: &x {p: 1}\ny: {<<: *x, q: 2}\n").get("y")
    assert isinstance(root, MapNode)
    assert [(one.name, one.merged) for one in root] == [("p", True), ("q", False)]
    assert root.merge is not None
