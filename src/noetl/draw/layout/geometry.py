"""The result of a layout: boxes and curves, in the unit of the sizes it was given, with y growing downwards."""

import msgspec

Point = tuple[float, float]


class Box(msgspec.Struct, frozen=True):
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float


class Curve(msgspec.Struct, frozen=True):
    """A line of straight and curved pieces.

    Each piece starts where the one before it ends. A piece of one point is straight and ends there; one of two or three
    points is a Bézier curve: its control points, then its end.
    """

    start: Point
    pieces: tuple[tuple[Point, ...], ...]


class ArcRoute(msgspec.Struct, frozen=True):
    """The way of an arc from its source to its target, or to the trunk that it joins."""

    curve: Curve
    #: where its label stands, if it has one
    label: Box | None = None
    #: it ends in a trunk, which has the arrow
    joins: bool = False
    #: it is too long for a lane of its own, and runs behind the cards
    direct: bool = False


class TrunkRoute(msgspec.Struct, frozen=True):
    """The common way of several arcs to the same target."""

    curve: Curve
    failure: bool
    reachable: bool


class NetLayout(msgspec.Struct, frozen=True):
    """Where everything stands in a connected part of a net."""

    width: float
    height: float
    #: by the name of a card or mark
    boxes: dict[str, Box]
    #: in the order of the links that were given
    arcs: tuple[ArcRoute, ...]
    trunks: tuple[TrunkRoute, ...]
