"""Some cases of every area in the larger sizes; `make conformance` runs them all, in all sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.sizes import NOT_OURS, standing
from servers import Database, Subjects

HERE = Path(__file__).parent
#: one case of each area, or of every third
_EVERY = {"dev": 3, "cluster": 1}


def some(every: int) -> list[Path]:
    """Cases that set no variables: those are where pipelines run, which these processes are started without."""
    found = []
    for area in sorted(path for path in (HERE / "cases").iterdir() if path.is_dir()):
        plain = [path for path in sorted(area.glob("*.yaml")) if "\nenv:" not in path.read_text(encoding="utf-8")]
        ours = [path for path in plain if f"{area.name}/{path.stem}" not in NOT_OURS]
        found += ours[:1]
    return found[::every]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["dev", "cluster"])
def test_cases_of_every_area_hold_in_a_larger_size(size: str, database: Database, nats: Subjects) -> None:
    from run import run_case  # type: ignore[import-not-found]

    services = {"NOETL_STORE": database.url, "NOETL_BUS": nats.url}
    with standing(size, {}, services) as command:
        results = [run_case(path, [str(command)], static=False) for path in some(_EVERY[size])]
    assert len(results) >= 13 // _EVERY[size]
    assert [f"{one['area']}/{one['case']}: {one['reason']}" for one in results if not one["ok"]] == []
