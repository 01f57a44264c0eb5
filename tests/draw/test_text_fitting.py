"""Text made harmless, measured, elided and wrapped."""

import unicodedata

from hypothesis import given, strategies as st

from noetl.draw.text_fitting import clean, elide, initial, shorten, width, wrap

anything = st.text(st.characters(exclude_categories=()), max_size=60)


@given(anything)
def test_cleaned_text_has_no_character_that_xml_forbids(text: str) -> None:
    cleaned = clean(text)
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Cn", "Zl", "Zp") for character in cleaned)


@given(anything)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)


def test_white_space_becomes_single_blanks() -> None:
    assert clean("  a\tb\r\n c\x00d\u2028e ") == "a b c d e"


def test_characters_that_turn_text_around_are_dropped() -> None:
    assert clean("safe\u202eevil\u2066x") == "safeevilx"


def test_marks_cannot_be_stacked_out_of_the_box() -> None:
    assert len(clean("a" + "\u0301" * 50)) <= 5


@given(anything, st.floats(30, 400), st.booleans(), st.booleans())
def test_elided_text_fits(text: str, room: float, bold: bool, fixed: bool) -> None:
    cleaned = clean(text)
    assert width(elide(cleaned, room, 12, bold=bold, fixed=fixed), 12, bold=bold, fixed=fixed) <= room + 0.001


def test_text_that_fits_stays_as_it_is() -> None:
    assert elide("fetch", 200, 14) == "fetch"


@given(anything, st.floats(40, 300), st.integers(1, 4))
def test_wrapped_text_fits_on_its_lines(text: str, room: float, lines: int) -> None:
    wrapped = wrap(clean(text), room, 12, lines=lines)
    assert len(wrapped) <= lines
    assert all(width(line, 12) <= room + 0.001 for line in wrapped)


def test_text_is_wrapped_between_words() -> None:
    assert wrap("output.data.state == 'done'", 196, 12, lines=2, fixed=True) == ("output.data.state ==", "'done'")


def test_a_long_word_is_torn_behind_a_joint() -> None:
    first, _ = wrap("workload.some.very.deep.path.of.a.value", 196, 12, lines=2, fixed=True)
    assert first.endswith(".")


def test_text_without_blanks_fills_its_lines() -> None:
    first, second = wrap("天気予報を取得してデータベースに保存する", 120, 12, lines=2)
    assert len(first) > 5
    assert len(second) > 5


def test_wide_scripts_are_wider_than_latin() -> None:
    assert width("データ", 12) > width("abc", 12)


def test_bold_is_wider() -> None:
    assert width("abc", 12, bold=True) > width("abc", 12)


def test_shortened_text_ends_with_an_ellipsis() -> None:
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abc", 4) == "abc"


def test_the_first_line_with_anything_on_it_is_the_initial_one() -> None:
    assert initial("\n  \n Fetch it. \nMore.") == "Fetch it."
    assert initial(None) == ""
