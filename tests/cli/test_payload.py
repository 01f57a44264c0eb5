"""What a run is given, held against what the playbook wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl

pytestmark = pytest.mark.usefixtures("home")
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: p
  schema:
    type: object
    required: [names, shop]
    properties:
      names: {type: array, items: {type: string}}
      shop: {type: string}
      db: {type: object, required: [host], properties: {port: {type: integer}}}
workload:
  names: %s
  db: {port: %s}
workflow:
  - {step: start, tool: {kind: noop, output: "{{ workload.names }}"}}
"""


def written(names: str = "[Ada]", port: str = "1") -> str:
    Path("p.yaml").write_text(PLAYBOOK % (names, port))
    return "p.yaml"


@pytest.mark.parametrize(
    ("names", "port", "at", "said"),
    [
        ("Ada", "1", (13, 10), "workload.names does not fit `metadata.schema`: 'Ada' is not of type 'array'"),
        ("[Ada, 2]", "1", (13, 16), "workload.names[1] does not fit `metadata.schema`: 2 is not of type 'string'"),
        ("[]", "x", (14, 14), "workload.db.port does not fit `metadata.schema`: 'x' is not of type 'integer'"),
    ],
)
def test_a_default_that_its_schema_forbids_is_an_error_where_it_stands(
    noetl: Noetl, folder: Path, names: str, port: str, at: tuple[int, int], said: str
) -> None:
    done = noetl("validate", written(names, port), "--json")
    assert done.code == 2
    (found,) = json.loads(done.out)["diagnostics"]
    assert (found["code"], found["severity"], found["message"]) == ("payload-schema", "error", said)
    assert (found["line"], found["column"]) == at


@pytest.mark.parametrize("names", ["[]", "", "null", "[Ada]"])
def test_what_the_payload_may_still_give_is_no_mistake_of_the_playbook(noetl: Noetl, folder: Path, names: str) -> None:
    assert noetl("validate", written(names), "--strict").code == 0


def test_a_payload_may_replace_a_default_that_does_not_fit(noetl: Noetl, folder: Path) -> None:
    given = '{"names": ["Grace"], "shop": "a", "db": {"host": "b"}}'
    done = noetl("run", written("Ada"), "--payload", given, "--json")
    assert json.loads(done.out)["output"] == ["Grace"]


def test_a_run_says_whose_fault_it_is(noetl: Noetl, folder: Path) -> None:
    done = noetl("run", written("Ada"), "--set", "shop=3", "--set", "db.host=a", "--set", "db.port=x")
    assert done.code == 2
    assert "\np.yaml:13:10: error[payload-schema]: workload.names does not fit" in done.err
    assert "correct this default, or the schema; or give another value with --set names=…" in done.err
    assert "workload.shop: 3 is not of type 'string'; the payload is at fault" in done.err
    assert "workload.db.port: 'x' is not of type 'integer'; the payload is at fault" in done.err


def test_a_run_names_the_key_that_nobody_gave(noetl: Noetl, folder: Path) -> None:
    done = noetl("run", written(), "--set", "db.port=2")
    assert done.code == 2
    assert "workload: 'shop' is a required property\n  help: give it with --set shop=…" in done.err
    assert "workload.db: 'host' is a required property\n  help: give it with --set db.host=…" in done.err


def test_a_schema_that_lies_elsewhere_is_not_fetched(noetl: Noetl, folder: Path) -> None:
    text = PLAYBOOK.replace("shop: {type: string}", "shop: {$ref: 'http://127.0.0.1:9/x'}")
    Path("p.yaml").write_text(text % ("[]", "1"))
    done = noetl("run", "p.yaml", "--set", "shop=a", "--set", "db.host=a")
    assert done.code == 2
    assert "its schema refers to `http://127.0.0.1:9/x`, which is not in it" in done.err


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_key_that_is_nearly_one_of_the_workload_is_told_and_the_run_goes_on(
    noetl: Noetl, files: Path, more: tuple[str, ...]
) -> None:
    Path("good.yaml").write_text(Path("good.yaml").read_text().replace("{n: 3}", "{n: 3, shops: []}"))
    done = noetl("run", "good.yaml", "--payload", '{"shop": [], "new": 1}', *more)
    assert done.code == 0
    assert "the workload has no `shop`; did you mean `shops`?\n" in done.err
    assert "`new`" not in done.err
