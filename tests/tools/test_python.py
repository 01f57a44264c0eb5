"""kind: python: what the code is given, what becomes of its result, and of its ends of all kinds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tool_world import Workshop, alive, until

from noetl.tools.python import host_pool

SCOPES = {"workload": {"key": "abc"}, "ctx": {"x": 1}, "iter": {"index": 3}, "keychain": {"api": {"token": "secret"}}}

DECORATED = """
import functools
def same(function):
    @functools.wraps(function)
    def inner(*arguments, **named):
        return function(*arguments, **named)
    return inner
@same
def main(b):
    return b
"""


async def data(world: Workshop, code: str, **given: Any) -> Any:
    output = await world.python(code, **given)
    assert output["status"] == "ok", output["error"]
    return output["data"]


async def error(world: Workshop, code: str, **given: Any) -> dict[str, Any]:
    output = await world.python(code, **given)
    assert output["status"] == "error", output["data"]
    assert output["data"] is None
    found: dict[str, Any] = output["error"]
    return found


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("def main(a, b, c=30): return [a, b, c]", [1, 2, 30]),
        ("def main(a): return a", 1),
        ("def main(a, **rest): return [a, rest]", [1, {"b": 2}]),
        ("def main(a, /, *, b): return [a, b]", [1, 2]),
        ("def main(*more, b=5): return [list(more), b]", [[], 2]),
        ("async def main(a):\n    import asyncio\n    await asyncio.sleep(0)\n    return a", 1),
        (DECORATED, 2),
        ("def main(): pass", None),
        ("def main(input_data): return input_data", {"a": 1, "b": 2}),
        ("def main(b, input_data, **rest): return [b, sorted(input_data), sorted(rest)]", [2, ["a", "b"], ["a"]]),
    ],
)
async def test_parameters_of_main_are_filled_by_name(world: Workshop, code: str, result: Any) -> None:
    assert await data(world, code, input={"b": 2, "a": 1}) == result


async def test_a_missing_argument_is_named(world: Workshop) -> None:
    found = await error(world, "def main(given, lacking): pass", input={"given": 1})
    assert found["kind"] == "python"
    assert found["message"] == "TypeError: main needs `lacking`; input has `given`"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("result = [a, b]", [1, 2]),
        ("return input_data", {"a": 1, "b": 2}),
        ("if a > 3:\n    return 'big'\nreturn 'small'", "small"),
        ("a = a + 1\nreturn a", 2),
        ("total: int = 0\nfor n in (1, 2):\n    total += n\nreturn total", 3),
        ("'doc'\nfrom __future__ import annotations\ndef f(x: Nope): return x\nreturn f(a)", 1),
        ("def f():\n    return a + late\nlate = 10\nreturn f()", 11),
        ("try:\n    return {}['x']\nexcept:\n    return 'caught'", "caught"),
        ("return [x * b for x in range(a, 3)]", [2, 4]),
        ("x = 1", None),
        (
            "from dataclasses import dataclass, asdict\n@dataclass\nclass P:\n    x: 'int'\nresult = asdict(P(a))",
            {"x": 1},
        ),
    ],
)
async def test_a_plain_script_assigns_result_or_returns(world: Workshop, code: str, result: Any) -> None:
    assert await data(world, code, input={"a": 1, "b": 2}) == result


async def test_input_does_not_become_variables_of_code_with_a_main(world: Workshop) -> None:
    assert await data(world, "def main(list): return sum(map(int, list))", input={"list": ["1", "2"], "map": 0}) == 3


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("def main(context): return context.workload.get('key')", "abc"),
        ("def main(context): return [context['x'], context.get('y'), dict(context), context.iter['index']]",
         [1, None, {"x": 1}, 3]),
        ("def main(results, context): return results is context", True),
        ("return context['x']", 1),
        ("def main(context): return hasattr(context, 'keychain')", False),
        ("def main():\n    context = 5\n    return context", 5),
    ],
)  # fmt: skip
async def test_context_shows_the_scopes(world: Workshop, code: str, result: Any) -> None:
    assert await data(world, code, scopes=SCOPES) == result


async def test_context_is_read_only_and_input_goes_before_it(world: Workshop) -> None:
    assert "read-only" in (await error(world, "def main(context): context['x'] = 2", scopes=SCOPES))["message"]
    assert "read-only" in (await error(world, "def main(context): context.x = 2", scopes=SCOPES))["message"]
    assert await data(world, "def main(context): return context", input={"context": "mine"}, scopes=SCOPES) == "mine"


async def test_a_module_beside_the_playbook_can_be_called(world: Workshop) -> None:
    (world.folder / "helpers.py").write_text("class Sums:\n    @staticmethod\n    def add(a, b=1): return a + b\n")
    (world.folder / "json.py").write_text("raise RuntimeError('not the one of Python')")
    output = await world.run("python", module="helpers", callable="Sums.add", input={"a": 2, "other": 0})
    assert output["data"] == 3
    assert (await world.run("python", module="json", callable="dumps", input={"obj": [1]}))["data"] == "[1]"
    assert (await world.run("python", module="math", callable="sqrt", input={"x": 9}))["data"] == 3.0
    output = await world.run("python", module="helpers", callable="nope")
    assert "nope" in output["error"]["message"]
    output = await world.run("python", module="no_such_module", callable="nope")
    assert output["py"]["exception_type"] == "ModuleNotFoundError"


async def test_what_is_printed_goes_to_the_log_and_nowhere_else(world: Workshop, capfd: Any) -> None:
    code = """
import os, subprocess, sys
print("module level")
def main():
    print("wörld", end="")
    sys.stdout.flush()
    os.write(1, b"|to the descriptor|")
    subprocess.run(["echo", "of a child"])
    print("cried", file=sys.stderr)
    os.write(1, b"\\xff")
"""
    assert await data(world, code) is None
    assert world.logged("stdout") == "module level\nwörld|to the descriptor|of a child\n\ufffd"
    assert world.logged("stderr") == "cried\n"
    assert await data(world, "print('other')", task="other") is None
    assert world.logged("stdout", "other") == "other\n"
    assert capfd.readouterr() == ("", "")


async def test_code_that_closes_stdout_harms_no_other_task(world: Workshop) -> None:
    await data(world, "import sys\nsys.stdout = None\nreturn 1")
    await data(world, "print('still here')", task="after")
    assert world.logged("stdout", "after") == "still here\n"


async def test_an_exception_is_an_error_with_the_authors_own_lines(world: Workshop) -> None:
    (world.folder / "beside.py").write_text("def fail():\n    raise ValueError('wrong')\n")
    code = "import beside\ndef main():\n    import json\n    try:\n        json.loads('x')\n    except ValueError:\n        beside.fail()"
    output = await world.python(code)
    assert output["error"]["kind"] == "python"
    assert output["error"]["message"] == "ValueError: wrong"
    assert output["py"] == {"exception_type": "ValueError", "exception": "wrong"}
    assert output["error"]["traceback"] == [
        "<step.task> line 7, in main: beside.fail()",
        f"{world.folder}/beside.py line 2, in fail: raise ValueError('wrong')",
    ]
    found = await error(world, "def main():\n    x = (\n    return")
    assert found["kind"] == "python"
    assert found["message"].startswith("SyntaxError: ")
    assert (await error(world, "class E(Exception):\n    def __str__(self): 1/0\nraise E"))["message"] == "E: …"


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("import os\nos._exit(0)", {"exit_code": 0}),
        ("import os\nos._exit(7)", {"exit_code": 7}),
        ("import sys\nsys.exit(3)", {"exit_code": 3}),
        ("raise SystemExit('words')", {"exit_code": 1}),
        ("import os\nos.kill(os.getpid(), 11)", {"signal": "SIGSEGV"}),
        ("import os\nif os.fork():\n    os._exit(5)\nimport time\ntime.sleep(60)", {"exit_code": 5}),
        ("import os\nos.closerange(3, 65_000)\nimport time\ntime.sleep(60)", {}),
    ],
)
async def test_an_end_without_a_result_is_a_crash(world: Workshop, code: str, fields: dict[str, Any]) -> None:
    found = await error(world, f"print('before', flush=True)\n{code}")
    assert found["kind"] == "tool-crashed"
    assert found.items() >= fields.items()
    assert world.logged("stdout").startswith("before")
    assert await data(world, "return 'alive'") == "alive"


async def test_a_fork_that_returns_answers_only_once(world: Workshop) -> None:
    assert await data(world, "import os\nif os.fork():\n    os.wait()\nreturn 1") == 1
    assert await data(world, "return 2") == 2


async def test_a_crash_does_not_disturb_its_neighbours(world: Workshop) -> None:
    neighbours = [
        asyncio.create_task(data(world, "import time\ntime.sleep(0.3)\nreturn n", input={"n": n})) for n in range(3)
    ]
    assert (await error(world, "import os\nos.abort()"))["signal"] == "SIGABRT"
    assert await asyncio.gather(*neighbours) == [0, 1, 2]


async def test_hosts_are_warm_and_of_one_execution(world: Workshop, tmp_path: Path) -> None:
    pid = await data(world, "import os\nreturn os.getpid()")
    assert await data(world, "import os\nos.chdir('/')\nreturn os.getpid()") == pid
    assert await data(world, "import os\nreturn os.getcwd()") == str(world.folder)
    assert await data(world, "return 'leak' in globals()") is False
    other = Workshop(tmp_path)
    assert await data(other, "import os\nreturn os.getpid()") != pid
    await other.close()
    await world.close()
    assert not alive(pid)


async def test_tasks_at_once_have_hosts_of_their_own_up_to_a_cap(world: Workshop) -> None:
    code = "import os, time\ntime.sleep(0.1)\nreturn os.getpid()"
    most = max(4, 2 * (os.cpu_count() or 1))
    found = await asyncio.gather(*(data(world, code) for _ in range(most + 3)))
    assert 1 < len(set(found)) <= most


ESCAPE = """
import os, subprocess, sys, time
here = subprocess.Popen(["sleep", "600"])
session = subprocess.Popen(["sleep", "601"], start_new_session=True)
bare = subprocess.Popen(["env", "-i", "sleep", "602"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("daemon", "w") as file:
            file.write(str(os.getpid()))
        time.sleep(603)
    os._exit(0)
os.wait()
with open("pids.new", "w") as file:
    file.write(f"{os.getpid()} {here.pid} {session.pid} {bare.pid}")
os.rename("pids.new", "pids")
"""


async def escaped(world: Workshop) -> list[int]:
    """The processes that `ESCAPE` starts, once they are there."""
    pids, daemon = world.folder / "pids", world.folder / "daemon"
    await until(lambda: pids.exists() and daemon.exists())
    await until(lambda: daemon.read_text() != "")
    return [int(pid) for pid in f"{pids.read_text()} {daemon.read_text()}".split()]


async def test_a_cancelled_task_leaves_nothing_running(world: Workshop) -> None:
    task = asyncio.create_task(world.python(ESCAPE + "time.sleep(600)"))
    family = await escaped(world)
    assert all(map(alive, family))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(map(alive, family)))  # a kill takes a moment
    assert await data(world, "return 'next'") == "next"


async def test_hosts_can_be_killed_at_once_with_all_that_they_started(world: Workshop) -> None:
    task = asyncio.create_task(world.python(ESCAPE + "time.sleep(600)"))
    family = await escaped(world)
    pool = await world.resource("python", None, None)  # type: ignore[arg-type]
    pool.kill()
    await until(lambda: not any(map(alive, family)))
    assert (await task)["error"]["kind"] == "tool-crashed"


async def test_what_a_crashed_task_left_is_ended(world: Workshop) -> None:
    code = "import os, subprocess\nprint(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True)\nos.abort()"
    await error(world, code)
    left = int(world.logged("stdout"))
    await until(lambda: not alive(left))  # a kill takes a moment


async def test_hosts_die_with_the_engine(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from tool_world import Workshop
asyncio.run(Workshop(Path({str(tmp_path)!r})).python("import os, subprocess\\n"
    "child = subprocess.Popen(['sleep', '600'])\\nopen('pids.new', 'w').write(f'{{os.getpid()}} {{child.pid}}')\\n"
    "os.rename('pids.new', 'pids')\\nwhile True: pass"))
"""
    engine = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", script])
    pids = tmp_path / "pids"
    await until(pids.exists)
    family = [int(pid) for pid in pids.read_text().split()]
    assert all(map(alive, family))
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    await until(lambda: not any(map(alive, family)))


@pytest.mark.parametrize(
    ("code", "limits", "words"),
    [
        ("return len(bytearray(500_000_000))", {"limits.memory_mb": 200}, "200 MB"),
        ("while True: pass", {"limits.cpu_s": 0.1}, "processor time"),
        ("while True: print('x' * 1000)", {"limits.output_bytes": 100_000}, "100,000 bytes"),
        ("return 'x' * 100_001", {"limits.output_bytes": 100_000}, "100,000 bytes"),
        (
            "import os, time\nfor _ in range(4): os.fork() or time.sleep(600)\ntime.sleep(600)",
            {"limits.processes": 3},
            "than 3 processes",
        ),
    ],
)
async def test_a_limit_holds(world: Workshop, code: str, limits: dict[str, Any], words: str) -> None:
    found = await error(world, code, spec=limits)
    assert found["kind"] == "limit"
    assert words in found["message"]
    assert len(world.logged("stdout")) <= 100_000
    assert await data(world, "return len(bytearray(300_000_000))") == 300_000_000


async def test_hosts_with_the_same_limit_of_memory_are_warm(world: Workshop) -> None:
    code = "import os\nreturn os.getpid()"
    spec = {"limits.memory_mb": 512}
    first = await data(world, code, spec=spec)
    assert await data(world, code) != first
    assert await data(world, code, spec=spec) == first


async def test_large_values_come_and_go(world: Workshop) -> None:
    rows = [{"id": n, "name": "née" * 20} for n in range(50_000)]
    assert await data(world, "def main(rows): return rows", input={"rows": rows}) == rows


async def test_the_environment_is_that_of_the_world(world: Workshop) -> None:
    world.environment = {**world.environment, "GIVEN": "here"}
    os.environ["NOETL_TEST_ELSEWHERE"] = "x"
    try:
        code = "import os\nreturn [os.environ.get('GIVEN'), 'NOETL_TEST_ELSEWHERE' in os.environ]"
        assert await data(world, code) == ["here", False]
    finally:
        del os.environ["NOETL_TEST_ELSEWHERE"]


async def test_what_is_printed_piece_by_piece_is_logged_by_whole_lines(world: Workshop) -> None:
    await world.python("print('squaring', 3)\nprint('a', end='')\nimport time; time.sleep(0.1)\nprint('b')")
    assert "".join(text for _, _, text in world.written).splitlines() == ["squaring 3", "ab"]
    assert all(text.endswith("\n") for _, _, text in world.written)


async def test_the_finally_blocks_of_cancelled_code_run(world: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_pool, "GRACE_S", 60.0)
    code = """
import pathlib, time
try:
    pathlib.Path("begun").touch()
    time.sleep(60)
except Exception:
    pathlib.Path("wrong").touch()
finally:
    pathlib.Path("tidy").touch()
    print("bye", end="")
"""
    task = asyncio.ensure_future(world.python(code))
    await until((world.folder / "begun").exists)
    task.cancel()
    await asyncio.wait([task])
    assert sorted(path.name for path in world.folder.iterdir()) == ["begun", "tidy"]
    assert world.logged("stdout") == "bye"


async def test_processes_that_code_has_forked_end_by_sigterm_as_ever(world: Workshop) -> None:
    code = """
import multiprocessing, time
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
child.start()
child.terminate()
child.join()
result = child.exitcode
"""
    assert (await world.python(code))["data"] == -15


async def test_keys_that_are_numbers_booleans_or_null_become_the_text_that_json_gives_them(world: Workshop) -> None:
    code = "def main():\n    return {1: 'a', -2: 'b', 1.5: 'c', None: 'd', 2**70: 'e', 'deep': [{True: 1, False: 0}]}"
    assert await data(world, code) == {
        "1": "a", "-2": "b", "1.5": "c", "null": "d", str(2**70): "e", "deep": [{"true": 1, "false": 0}]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("{'x': {1: 'a', '1': 'b'}}", "`result.x` has two keys that are `1` in JSON"),
        ("[{(1, 2): 'pair'}]", "`result[0]` has a key that is not text: tuple (1, 2)"),
        ("{float('nan'): 1}", "`result` has a key that is not a number that JSON knows: nan"),
        ("{'n': [10**5000]}", "`result.n[0]` is a whole number of more than 4,300 digits"),
    ],
)
async def test_what_json_has_no_form_for_is_named_with_its_place(world: Workshop, returned: str, said: str) -> None:
    found = await error(world, f"def main():\n    return {returned}")
    assert (found["kind"], found["message"]) == ("result-not-json", said)


async def test_whole_numbers_of_any_size_come_and_go(world: Workshop) -> None:
    code = "import decimal\ndef main(n):\n    return [n + 1, decimal.Decimal(n), decimal.Decimal(10) ** 30]"
    assert await data(world, code, input={"n": 2**200}) == [2**200 + 1, 2**200, 10**30]


async def test_a_key_of_input_goes_before_any_name_of_the_engine(world: Workshop) -> None:
    given = {"input_data": [1], "context": "mine", "results": [7]}
    assert await data(world, "result = [input_data, context, results]", input=given) == [[1], "mine", [7]]
    assert await data(world, "return input_data", input={"a": 1}) == {"a": 1}
