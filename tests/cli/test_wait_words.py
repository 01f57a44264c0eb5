"""What a person is shown of something that waits."""

from __future__ import annotations

import pytest

from noetl.cli.output.state_lines import wait_words
from noetl.model.state import Wait


def test_the_title_of_a_wait_says_what_is_asked_for() -> None:
    assert wait_words(Wait("a", signal="ok", title="May we ship 40 boxes?")) == (
        "waits for the signal `ok` (May we ship 40 boxes?)"
    )
    assert wait_words(Wait("a", signal="ok")) == "waits for the signal `ok`"


@pytest.mark.parametrize(
    "wait",
    [
        Wait("a", signal="ok", title="\x1b[2J\x07done"),
        Wait("a", signal="\x1b]0;owned\x07"),
        Wait("a", child={"path": "\x1b[31mred", "execution_id": "x"}),
    ],
    ids=["title", "signal", "path"],
)
def test_what_data_says_cannot_steer_a_terminal(wait: Wait) -> None:
    shown = wait_words(wait)
    assert shown.isprintable(), shown


def test_a_long_title_is_cut_to_its_first_line() -> None:
    shown = wait_words(Wait("a", signal="ok", title="Ship it?\n" + "x" * 10_000))
    assert shown == "waits for the signal `ok` (Ship it?)"
