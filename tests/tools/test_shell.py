"""kind: shell: what commands are given, what they give back, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tool_world import Workshop, alive, until

from noetl.drivers import processes


async def test_a_command_gives_its_streams_and_its_code(world: Workshop) -> None:
    (world.folder / "here.txt").write_text("content")
    output = await world.run(
        "shell", cmd='printf "%s|" "$WHO"; cat here.txt; printf oops >&2', env={"WHO": "$HOME `x`"}
    )
    assert output["data"] == {"stdout": "$HOME `x`|content", "stderr": "oops", "exit_code": 0}
    assert world.logged("stdout") == "$HOME `x`|content"
    assert world.logged("stderr") == "oops"


async def test_input_and_env_are_variables(world: Workshop) -> None:
    values = {"N": 1, "FLAG": True, "NONE": None, "MAP": {"a": [1]}, "OVER": "input"}
    cmd = 'printf "%s;" "$N" "$FLAG" "$NONE" "$MAP" "$OVER"'
    output = await world.run("shell", cmd=cmd, input=values, env={"OVER": "env"})
    assert output["data"]["stdout"] == '1;true;;{"a": [1]};env;'


async def test_a_list_runs_in_order_until_one_fails(world: Workshop) -> None:
    output = await world.run("shell", cmd=["printf a", "printf b >&2", "printf c"])
    assert output["data"] == {"stdout": "ac", "stderr": "b", "exit_code": 0}
    output = await world.run("shell", cmd=["touch one", "echo why >&2; exit 5", "touch two"])
    assert output["error"]["exit_code"] == 5
    assert sorted(path.name for path in world.folder.iterdir()) == ["one"]


async def test_a_code_other_than_zero_is_an_error(world: Workshop) -> None:
    output = await world.run("shell", cmd="echo out; echo first >&2; echo last words >&2; exit 3")
    assert output["status"] == "error"
    assert output["data"] is None
    assert output["error"] == {
        "kind": "shell",
        "message": "the command exited with code 3: first | last words",
        "retryable": False,
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "first\nlast words\n",
    }
    output = await world.run("shell", cmd="kill -9 $$")
    assert output["error"]["message"] == "the command was killed by SIGKILL"
    assert (output["error"]["exit_code"], output["error"]["signal"]) == (137, "SIGKILL")


async def test_folders_and_files_start_at_the_playbooks_folder(world: Workshop) -> None:
    sub = world.folder / "sub"
    sub.mkdir()
    (world.folder / "plain.sh").write_text("pwd; echo $X")
    assert (await world.run("shell", cmd="pwd"))["data"]["stdout"] == f"{world.folder}\n"
    output = await world.run("shell", file="plain.sh", cwd="sub", input={"X": "x"})
    assert output["data"]["stdout"] == f"{sub}\nx\n"
    script = world.folder / "other"
    script.write_text("#!/usr/bin/env python3\nprint(2 ** 10)")
    script.chmod(0o755)
    assert (await world.run("shell", file="other"))["data"]["stdout"] == "1024\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cmd": "true", "cwd": "nowhere"}, "nowhere"),
        ({"cmd": "true", "input": {"BIG": "x" * 3_000_000}}, "too long"),
        ({"cmd": "true", "input": {"NUL": "a\0b"}}, "null"),
        ({"cmd": "true", "env": "text"}, "must be a map"),
    ],
)
async def test_what_cannot_be_started_is_an_error(world: Workshop, given: dict[str, Any], words: str) -> None:
    output = await world.run("shell", **given)
    assert output["error"]["kind"] == "shell"
    assert words in output["error"]["message"]


async def test_a_command_has_no_terminal_to_wait_for(world: Workshop) -> None:
    assert (await world.run("shell", cmd="read x || echo nobody"))["data"]["stdout"] == "nobody\n"


async def test_lines_are_logged_as_they_come(world: Workshop) -> None:
    task = asyncio.create_task(
        world.run("shell", cmd="echo first; while [ ! -e go ]; do sleep 0.05; done; echo second")
    )
    await until(lambda: world.logged("stdout") == "first\n")
    assert not task.done()
    (world.folder / "go").touch()
    assert (await task)["data"]["stdout"] == "first\nsecond\n"


async def test_bytes_that_are_no_text_are_replaced(world: Workshop) -> None:
    output = await world.run("shell", cmd=r"printf '\303'; sleep 0.1; printf '\251\377'")
    assert output["data"]["stdout"] == "é\ufffd"


async def test_what_stays_in_the_background_ends_with_the_task(world: Workshop) -> None:
    started = time.monotonic()
    output = await world.run("shell", cmd=["sleep 600 & echo $!", "echo done"])
    pid, done = output["data"]["stdout"].split()
    assert done == "done"
    assert time.monotonic() - started < 60
    await until(lambda: not alive(int(pid)))


async def test_a_cancelled_command_leaves_nothing_running(world: Workshop) -> None:
    cmd = "sleep 600 & echo $! >> pids; setsid sleep 601 & echo $! >> pids; (setsid sh -c 'echo $$ >> pids; sleep 602' &); sleep 603"
    task = asyncio.create_task(world.run("shell", cmd=cmd))
    pids = world.folder / "pids"
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    family = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: all(map(alive, family)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [pid for pid in family if alive(pid)] == []


async def test_what_has_left_the_group_of_its_command_ends_with_the_execution(world: Workshop) -> None:
    cmd = "setsid sleep 600 >/dev/null 2>&1 & echo $!; (setsid sh -c 'echo $$ > pid; exec sleep 601' >/dev/null 2>&1 &)"
    output = await world.run("shell", cmd=cmd + "; until [ -s pid ]; do sleep 0.02; done; cat pid")
    escaped = [int(pid) for pid in output["data"]["stdout"].split()]
    assert len(escaped) == 2
    await world.close()
    assert [pid for pid in escaped if alive(pid)] == []


async def test_a_limit_of_processes_lets_so_many_be_started(world: Workshop) -> None:
    cmd = "for _ in 1 2 3; do sleep 0.3 & done; wait; printf done"
    output = await world.run("shell", cmd=cmd, spec={"limits.processes": 3})
    assert output["data"]["stdout"] == "done"


@pytest.mark.parametrize(
    ("cmd", "limits", "words"),
    [
        (
            "for _ in 1 2 3 4; do (sleep 600; true) & done; setsid sleep 600 & wait",
            {"limits.processes": 3},
            "than 3 processes",
        ),
        ("for n in $(seq 40); do (sleep 600; true) & done; wait", {"limits.processes": 8}, "than 8 processes"),
        ("yes", {"limits.output_bytes": 100_000}, "100,000 bytes"),
        ("while :; do :; done", {"limits.cpu_s": 0}, "processor time"),
    ],
)
async def test_a_limit_holds(world: Workshop, cmd: str, limits: dict[str, Any], words: str) -> None:
    output = await world.run("shell", cmd=cmd, spec=limits)
    assert output["error"]["kind"] == "limit"
    assert words in output["error"]["message"]
    assert len(world.logged("stdout")) <= 100_000


async def test_a_limit_of_memory_reaches_the_command(world: Workshop) -> None:
    output = await world.run("shell", cmd="ulimit -v", spec={"limits.memory_mb": 100})
    assert output["data"]["stdout"] == "102400\n"


async def test_what_is_written_piece_by_piece_is_logged_by_whole_lines(world: Workshop) -> None:
    await world.run("shell", cmd="printf 'one '; sleep 0.1; printf 'two\\nthr'; sleep 0.1; printf 'ee\\nlast'")
    assert [text for _, _, text in world.written] == ["one two\n", "three\n", "last"]


async def test_a_line_without_end_is_logged_in_pieces(world: Workshop) -> None:
    await world.run("shell", cmd="head -c 200000 /dev/zero | tr '\\0' x")
    assert len(world.logged("stdout")) == 200_000
    assert max(len(text) for _, _, text in world.written) <= 2 * 65_536 + 1


async def test_a_cancelled_command_may_put_things_in_order(world: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 60.0)
    cmd = "trap 'echo tidy > tidy; printf bye; exit 0' TERM; touch begun; while :; do sleep 0.05; done"
    task = asyncio.ensure_future(world.run("shell", cmd=cmd))
    await until((world.folder / "begun").exists)
    task.cancel()
    await asyncio.wait([task])
    assert (world.folder / "tidy").read_text() == "tidy\n"
    assert world.logged("stdout") == "bye"


async def test_a_command_that_will_not_end_is_killed_after_its_grace(world: Workshop) -> None:
    task = asyncio.ensure_future(world.run("shell", cmd="trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"))
    await until(lambda: bool((world.folder / "pid").exists() and (world.folder / "pid").read_text()))
    began = time.monotonic()
    task.cancel()
    await asyncio.wait([task], timeout=60)
    assert time.monotonic() - began > 1.5
    assert task.cancelled()
    assert not alive(int((world.folder / "pid").read_text()))


async def test_a_command_that_holds_a_secret_is_no_argument_of_its_process(world: Workshop) -> None:
    output = await world.run(
        "shell", cmd="hush=1; tr '\\0' ' ' < /proc/$$/cmdline; echo; exit 0", spec={"limits.cpu_s": 5}
    )
    assert "hush" not in output["data"]["stdout"]
    assert "/proc/self/fd/" in output["data"]["stdout"]
    output = await world.run("shell", cmd=["hush=1; echo $((hush + 1)); cd /", "pwd >&2; exit 3"])
    assert output["error"]["exit_code"] == 3


async def test_a_command_that_fails_within_bounds_says_which_they_are(world: Workshop) -> None:
    output = await world.run("shell", cmd="echo no route >&2; exit 7", spec={"network": "off"})
    assert output["error"]["message"].endswith(": no route (the task runs with no network)")
