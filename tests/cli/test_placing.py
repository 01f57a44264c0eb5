"""Where an error is said to come from."""

from __future__ import annotations

from noetl.cli.output.state_lines import locate_error, place_line
from noetl.ports import PlaybookSource

TEXT = "workflow:\n  - step: start\n    tool: {kind: postgres, auth: db, query: SELECT id FROM salez}\n"
SOURCE = PlaybookSource("0", TEXT, "sales.yaml")
SQL = {"kind": "sql", "message": "no such table", "step": "start", "task": "start", "statement": 1, "line": 7}


def test_the_line_of_a_query_is_not_taken_for_a_line_of_the_playbook() -> None:
    assert place_line(SQL, SOURCE) == "at sales.yaml:3"
    assert locate_error(SQL, SOURCE) == {**SQL, "file": "sales.yaml", "line": 3, "query_line": 7}


def test_an_error_of_sql_whose_place_is_not_known_is_left_as_it_is() -> None:
    elsewhere = {**SQL, "step": "gone"}
    for error, source in ((SQL, None), (elsewhere, SOURCE), ({**SQL, "step": None}, SOURCE)):
        assert place_line(error, source) == ""
        assert locate_error(error, source) == error


def test_an_error_is_placed_once() -> None:
    once = locate_error(SQL, SOURCE)
    assert locate_error(once, SOURCE) == once
