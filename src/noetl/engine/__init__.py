"""What follows from what happened: tokens, steps, loops, routing, the start and the end of an execution. Pure: time and ids come in as arguments."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.engine.decision import Decision as Decision
    from noetl.engine.decision_replay import (
        ForkMark as ForkMark,
        ReplayDiverged as ReplayDiverged,
        is_cause as is_cause,
        replay_decision as replay_decision,
    )
    from noetl.engine.fold import apply as apply
    from noetl.engine.net_index import NetIndex as NetIndex
    from noetl.engine.reaction import (
        check_idle as check_idle,
        find_pending_orders as find_pending_orders,
        react as react,
        reissue_order as reissue_order,
        set_aside as set_aside,
        start_execution as start_execution,
    )
    from noetl.engine.requests import explain_refusal as explain_refusal
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "decision": "Decision",
            "decision_replay": "ForkMark ReplayDiverged is_cause replay_decision",
            "fold": "apply",
            "net_index": "NetIndex",
            "reaction": "check_idle find_pending_orders react reissue_order set_aside start_execution",
            "requests": "explain_refusal",
        },
    )
