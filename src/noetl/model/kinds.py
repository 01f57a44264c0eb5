"""ToolKind: what a tool kind declares about itself, once, for validation, schema and documentation."""

import enum
from collections.abc import Mapping

import msgspec

from noetl.model.shape import Key


class InputRole(enum.StrEnum):
    """What a task's `input` is to its tool."""

    CONFIGURES = "configures"  #: its keys mean the same as the keys beside `kind`
    ARGUMENTS = "arguments"  #: its keys are the arguments of the call


class ToolKind(msgspec.Struct, frozen=True):
    """The declaration of one kind of tool."""

    name: str
    doc: str
    keys: Mapping[str, Key]
    input: InputRole
    output: str
    #: of each group exactly one key must be given
    one_of: tuple[tuple[str, ...], ...] = ()
    #: of each group at most one key may be given
    at_most_one: tuple[tuple[str, ...], ...] = ()
    #: keys whose text is not a template at all
    literal: frozenset[str] = frozenset()
    #: keys whose templates become bound parameters
    sql: frozenset[str] = frozenset()
    #: keys whose templates about `row` and `chunk`, and whose SQL, wait until the tool has a row
    late: frozenset[str] = frozenset()
    #: keys whose templates become single words of a command line
    shell: frozenset[str] = frozenset()
    #: keys that name a file: what a template puts there may not lead out of the playbook's folder
    paths: frozenset[str] = frozenset()
    #: in the single-task shape, where a task needs no name, `name` stands for this key
    name_means: str | None = None
    #: other names for this kind
    aliases: tuple[str, ...] = ()
    #: running it twice, or not at all after a crash, changes nothing outside
    effect_free: bool = False
    #: `network` and `allow_hosts` hold for it: it keeps them itself, or reaches nobody
    keeps_network: bool = False
    #: it runs in a process of its own, which `isolation` and `limits` bind
    has_process: bool = False
    #: of these keys, those that it keeps though no process is its alone
    binds: frozenset[str] = frozenset()
    #: kinds of sources and targets of a transfer that lie behind a network
    remote: frozenset[str] = frozenset()
    #: kinds of keychain entries without one of which it cannot run, nor an end of a transfer that is of this kind
    opened_by: frozenset[str] = frozenset()
    #: it is put away until what it waits for has come, which only a task of a step can be
    suspends: bool = False
    #: kinds of errors of its own, beside those of the language
    error_kinds: frozenset[str] = frozenset()
    #: of the keys of `spec` that only some kinds read, those that it reads; None: nobody has said
    settings: frozenset[str] | None = None
    #: the command that installs what it needs; empty where it can run
    install: str = ""
    #: the same by the kind of a transfer's source or target
    end_installs: Mapping[str, str] = {}
    #: only a `spec.timeout` of its own task, loop or step bounds it, and none from further out
    own_timeout: bool = False
    #: other values than `spec` gives it when nobody says otherwise
    defaults: Mapping[str, object] = {}
