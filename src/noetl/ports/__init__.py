"""What stores, tools, workers, results and buses must do. Each docstring is the contract."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.ports.cluster import (
        HINT_BYTES as HINT_BYTES,
        Bus as Bus,
        ReceivedHint as ReceivedHint,
        WorkerRegistry as WorkerRegistry,
    )
    from noetl.ports.credentials import Keychain as Keychain, NoCredential as NoCredential
    from noetl.ports.log import (
        OVER as OVER,
        Conflict as Conflict,
        EventLog as EventLog,
        ListenableLog as ListenableLog,
        LogDamaged as LogDamaged,
        LogLine as LogLine,
        PlaybookSource as PlaybookSource,
        StoreFailed as StoreFailed,
        StoreUnreachable as StoreUnreachable,
        Summary as Summary,
    )
    from noetl.ports.results import (
        Part as Part,
        ResultDamaged as ResultDamaged,
        ResultGone as ResultGone,
        Results as Results,
        ResultStore as ResultStore,
    )
    from noetl.ports.slots import HasSlots as HasSlots, Slots as Slots
    from noetl.ports.tools import Call as Call, Tool as Tool, World as World
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "cluster": "Bus HINT_BYTES ReceivedHint WorkerRegistry",
            "credentials": "Keychain NoCredential",
            "log": "Conflict EventLog ListenableLog LogDamaged LogLine OVER PlaybookSource StoreFailed StoreUnreachable Summary",
            "results": "Results Part ResultDamaged ResultGone ResultStore",
            "tools": "Tool Call World",
            "slots": "HasSlots Slots",
        },
    )
