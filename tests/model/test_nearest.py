"""The nearest known word: near enough to have been meant, or none."""

import pytest

from noetl.model.nearest import nearest


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("inptu", ["input", "output"], "input"),
        ("pyhton", ["python", "postgres"], "python"),
        ("sett", ["set", "step"], "set"),
        ("Step", ["step"], "step"),
        ("htp", ["http"], "http"),
        ("ab", ["cd"], None),
        ("totally", ["different"], None),
        ("x", [], None),
        ("", ["ab"], None),
        ("workflows", ["workflow", "workload"], "workflow"),
    ],
)
def test_a_word_is_meant_when_it_takes_few_edits(word: str, known: list[str], meant: str | None) -> None:
    assert nearest(word, known) == meant


def test_the_word_itself_is_no_suggestion() -> None:
    assert nearest("step", ["step"]) is None


def test_the_nearer_of_two_wins_whatever_their_order() -> None:
    assert nearest("outputs", ["inputs", "output"]) == nearest("outputs", ["output", "inputs"]) == "output"


def test_of_equally_near_words_the_first_wins() -> None:
    assert nearest("cat", ["bat", "hat"]) == "bat"


def test_a_swap_of_neighbours_is_one_edit() -> None:
    assert nearest("fro", ["for"]) == "for"
