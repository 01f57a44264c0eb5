"""Gates: which parked tokens have to be looked at again, found by what their rules read instead of by asking them all."""

from noetl.engine.gates.gate_index import GateIndex as GateIndex, read_token as read_token
from noetl.engine.gates.gate_watch import Answer as Answer, GateWatch as GateWatch
from noetl.engine.gates.regions import Regions as Regions
