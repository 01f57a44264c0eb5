"""Net: the playbook as a graph, the compiled form the engines run and the analysis asks."""

from collections.abc import Mapping

import msgspec

from noetl.model.playbook import Arc, Playbook, Step


class Incoming(msgspec.Struct, frozen=True):
    """An arc, seen from the step it leads to."""

    source: str
    arc: Arc


class Net(msgspec.Struct, frozen=True):
    """Steps by name, where each leads and who leads to it."""

    playbook: Playbook
    #: the first step to run
    start: str
    #: in the order of the document
    steps: Mapping[str, Step]
    incoming: Mapping[str, tuple[Incoming, ...]]
    #: of an execution: the steps that planned others, each with the first of its plan
    plans: tuple[tuple[str, str], ...] = ()
