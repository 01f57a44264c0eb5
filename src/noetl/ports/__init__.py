"""What stores, tools, workers, results and buses must do. Each docstring is the contract."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.ports.access import AccessStore as AccessStore, HasAccess as HasAccess
    from noetl.ports.cluster import (
        HINT_BYTES as HINT_BYTES,
        Bus as Bus,
        HasSlots as HasSlots,
        LostWorkers as LostWorkers,
        ReceivedHint as ReceivedHint,
        Slots as Slots,
        WorkerRegistry as WorkerRegistry,
    )
    from noetl.ports.log import (
        OVER as OVER,
        Conflict as Conflict,
        EventLog as EventLog,
        HasClock as HasClock,
        ListenableLog as ListenableLog,
        LogDamaged as LogDamaged,
        LogLine as LogLine,
        PlaybookSource as PlaybookSource,
        ReportsLoss as ReportsLoss,
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
    from noetl.ports.tools import (
        Call as Call,
        Keychain as Keychain,
        NoCredential as NoCredential,
        Tool as Tool,
        World as World,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "access": "AccessStore HasAccess",
            "cluster": "Bus HINT_BYTES HasSlots LostWorkers ReceivedHint Slots WorkerRegistry",
            "log": "Conflict EventLog HasClock ListenableLog LogDamaged LogLine OVER PlaybookSource ReportsLoss StoreFailed StoreUnreachable Summary",
            "results": "Part ResultDamaged ResultGone ResultStore Results",
            "tools": "Call Keychain NoCredential Tool World",
        },
    )
