"""The log in memory keeps the contract."""

from collections.abc import Callable

import pytest
from access_contract import AccessContract
from log_contract import EventLogContract

from noetl.ports import AccessStore
from noetl.stores.memory import MemoryLog


class TestMemoryLog(EventLogContract):
    @pytest.fixture
    def log(self) -> MemoryLog:
        return MemoryLog()

    @pytest.fixture
    def beside(self, log: MemoryLog) -> MemoryLog:
        return MemoryLog(beside=log)

    @pytest.fixture
    def reopen(self, log: MemoryLog) -> Callable[[], MemoryLog]:
        return lambda: MemoryLog(beside=log)


class TestMemoryAccess(AccessContract):
    @pytest.fixture
    def access(self) -> AccessStore:
        return MemoryLog().access()

    @pytest.fixture
    def access_beside(self, access: AccessStore) -> AccessStore:
        return access
