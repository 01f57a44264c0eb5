"""Steps and arcs as plain lines of text, for formats that lay out and draw by themselves."""

import re

from noetl.draw.picture import Card, Link, Picture, Row
from noetl.draw.text import clean, shorten

_MOST_TASKS, _FIRST_TASKS, _LAST_TASKS = 6, 3, 2
_MOST_CHARACTERS, _MOST_OF_A_CONDITION = 60, 36
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def identifiers(seen: Picture) -> dict[str, str]:
    """For every card and mark a name that is safe in any language, unlike any other and unlike any keyword."""
    names = [card.name for card in seen.cards] + [mark.name for mark in seen.marks]
    return {name: f"s{position}_{_UNSAFE.sub('_', name)[:24].strip('_')}" for position, name in enumerate(names)}


def card_lines(card: Card) -> list[str]:
    """What a card says, line by line, its name first."""
    lines = [clean(card.name), _what(card)]
    if len(card.rows) > 1:
        lines += _tasks(card.rows)
    lines += [badge.text for badge in card.badges]
    if card.fans_out:
        lines.append("every matching arc is taken")
    return [shorten(line, _MOST_CHARACTERS) for line in lines if line]


def _what(card: Card) -> str:
    kind = ""
    if card.rows:
        kind = card.rows[0].kind if len(card.rows) == 1 else f"{len(card.rows)} tasks"
    return " · ".join(filter(None, (kind, card.desc)))


def _tasks(rows: tuple[Row, ...]) -> list[str]:
    lines = [f"{number}. {row.name} ({row.kind})" for number, row in enumerate(rows, 1)]
    if len(lines) <= _MOST_TASKS:
        return lines
    hidden = len(lines) - _FIRST_TASKS - _LAST_TASKS
    return [*lines[:_FIRST_TASKS], f"… {hidden} more", *lines[-_LAST_TASKS:]]


def link_lines(link: Link) -> list[str]:
    """What stands beside an arc, line by line."""
    number = f"{link.number} · " if link.number is not None else ""
    lines = [number + shorten(link.text, _MOST_OF_A_CONDITION)] if link.text else []
    if link.cancels:
        lines.append(shorten("cancels " + ", ".join(link.cancels), _MOST_OF_A_CONDITION))
    return lines


def look(card: Card) -> str:
    """The kind whose colours a card has."""
    if not card.rows:
        return card.role
    return card.rows[0].kind if len(card.rows) == 1 else "pipeline"
