"""Cases as a whole: signals, time, runs that go nowhere, cassettes, deaths."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from suite_folder import Bench, said

from noetl.testing import crash_check

Make = Callable[[str], Bench]
WAIT = """
- {step: first, tool: {kind: wait, seconds: 10}, next: {arcs: [{step: ask}]}}
- step: ask
  tool: {kind: wait, signal: go, timeout: 3600}
  set: {ctx.said: "{{ output.data }}"}
  next: {arcs: [{step: again}]}
- {step: again, tool: {kind: wait, signal: go}, set: {ctx.then: "{{ output.data }}"}}
"""


def test_signals_are_sent_when_somebody_waits_for_them_first_in_first_out(bench: Make) -> None:
    assert said(bench(WAIT).one("""
  signals: [{name: go, data: {n: 1}}, {name: go, data: {n: 2}}]
  expect: {ctx: {said: {n: 1}, then: {n: 2}}, seconds: 10}
""")) == []  # fmt: skip


def test_signals_are_sent_at_their_time_or_after_a_step(bench: Make) -> None:
    assert said(bench(WAIT).one("""
  signals: [{name: go, data: early, at: 3}, {name: go, data: late, after: ask}]
  expect: {ctx: {said: early, then: late}, seconds: 10}
""")) == []  # fmt: skip
    assert said(bench(WAIT).one("""
  signals: [{name: go, data: x, at: 5000}]
  expect: {error: {kind: timeout, step: ask}, seconds: 3610}
""")) == [
        "the signal `go` was never sent: the run was over before anybody waited for it, or before its time"
    ]  # fmt: skip


def test_a_run_that_waits_for_what_nobody_sends_is_told_and_not_waited_for(bench: Make) -> None:
    result = bench(WAIT).one("  signals: [{name: go}]")
    assert result.status == "error"
    assert said(result) == ["the run waits for `go`, and nobody sends it"]


def test_a_run_without_an_end_is_ended(bench: Make) -> None:
    steps = "\n- {step: a, tool: {kind: wait, seconds: 60}, next: {arcs: [{step: a}]}}\n"
    result = bench(steps).one("  limit: 0.3")
    assert said(result) == ["the run takes more than 0.3 s of real time"]


def test_a_real_task_without_an_end_is_ended_with_its_process(bench: Make) -> None:
    result = bench("\n- {step: a, tool: {kind: shell, cmd: sleep 600}}\n").one("  real: [shell]\n  limit: 0.3")
    assert said(result) == ["the run takes more than 0.3 s of real time"]
    assert result.seconds < 60


def test_what_time_it_is_and_what_is_drawn_is_the_same_each_time(bench: Make) -> None:
    made = bench('\n- {step: a, tool: {kind: noop, output: "{{ now() }} {{ uuid() }} {{ execution_id }}"}}\n')
    first, second = (made.one("  expect: {}").done for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.output == second.output
    assert str(first.output).startswith("2026-01-01T00:00:00+00:00 ")
    dated = made.one("  now: 2027-05-06T07:08:09Z\n  expect: {output: \"{{ '2027-05-06T07:08:09' in it }}\"}")
    assert said(dated) == []


def test_a_time_without_a_zone_is_utc_wherever_the_case_runs(bench: Make, new_york: None) -> None:
    made = bench('\n- {step: a, tool: {kind: noop, output: "{{ now() }}"}}\n')
    for text in ("2027-05-06T07:08:09", "2027-05-06T07:08:09Z"):
        dated = made.one(f"  now: {text}\n  expect: {{output: '2027-05-06T07:08:09+00:00'}}")
        assert said(dated) == []


def test_a_case_lays_its_settings_over_those_of_its_file(bench: Make) -> None:
    ran = bench('\n- {step: a, tool: {kind: http, url: "{{ workload.x.a }}{{ workload.x.b }}"}}\n').run("""
payload: {x: {a: 1, b: 2}}
mocks: {a: {data: "{{ call.url }}"}}
tests:
  - {name: as it is, expect: {output: "12"}}
  - {name: in part, payload: {x: {b: 3}}, expect: {output: "13"}}
  - {name: mocked otherwise, mocks: {a: {data: no}}, expect: {output: "no"}}
  - {name: left out, skip: not ready yet}
""")
    assert [one.status for one in ran.results] == ["passed", "passed", "passed", "skipped"]


def test_only_the_chosen_cases_run(bench: Make) -> None:
    cases = "tests: [{name: one}, {name: two}]"
    ran = bench("\n- {step: a, tool: {kind: noop}}").run(cases, chosen=lambda name: name == "tried.test.yaml::two")
    assert [one.case.name for one in ran.results] == ["two"]


def test_a_payload_that_the_playbook_refuses_is_told_at_the_payload(bench: Make) -> None:
    made = bench("\n- {step: a, tool: {kind: noop}}")
    text = (made.folder / "tried.yaml").read_text()
    schema = "{name: tried, schema: {properties: {url: {type: string}}}}"
    made.put("tried.yaml", text.replace("{name: tried}", schema))
    result = made.one("  payload: {url: 3}")
    assert result.status == "error"
    assert said(result) == ["workload.url: 3 is not of type 'string'"]


# --- cassettes -------------------------------------------------------------------------------------------------------

FETCH = """
- step: each
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel}}
  tool:
    kind: http
    url: "{{ workload.url }}/{{ iter.n }}"
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, delay: 60}}]}}
"""


class _Counting(BaseHTTPRequestHandler):
    """Answers each path with an error first, then with its number."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        again = self.asked.count(self.path) > 1
        self.send_response(200 if again else 503)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"n": int(self.path[1:])}).encode() if again else b"null")

    def log_message(self, *_args: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    _Counting.asked = []
    opened = ThreadingHTTPServer(("127.0.0.1", 0), _Counting)
    serving = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    yield opened
    opened.shutdown()
    serving.join()
    opened.server_close()


def test_what_was_recorded_once_is_played_from_then_on(bench: Make, server: ThreadingHTTPServer) -> None:
    made = bench(FETCH)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    case = f"  payload: {{url: '{url}'}}\n  expect: {{output: [{{n: 1}}, {{n: 2}}, {{n: 3}}], calls: {{each: 6}}}}"
    assert "has no mock" in said(made.one(case))[0]
    recorded = made.one(case, record=True)
    assert said(recorded) == []
    assert recorded.done is not None
    assert recorded.done.seconds >= 60  # the backoff was skipped all the same
    assert len(_Counting.asked) == 6
    cassette = json.loads((made.folder / "tried.cassette.json").read_text())
    assert len(cassette["cases"]["it"]) == 6
    assert said(made.one(case)) == []
    assert said(made.one(case, crash=True)) == []
    assert len(_Counting.asked) == 6
    server.shutdown()
    assert said(made.one(case)) == []


def test_a_call_that_is_not_the_recorded_one_is_told_with_what_is_different(
    bench: Make, server: ThreadingHTTPServer
) -> None:
    made = bench(FETCH)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    assert said(made.one(f"  payload: {{url: '{url}', items: [4]}}", record=True)) == []
    result = made.one(f"  payload: {{url: '{url}', items: [5]}}")
    assert result.status == "error"
    assert f'`url` was "{url}/4" and is "{url}/5"' in said(result)[0]


def test_a_cassette_that_cannot_be_read_is_told(bench: Make) -> None:
    made = bench(FETCH)
    made.put("tried.cassette.json", "{")
    with pytest.raises(Exception, match=r"tried\.cassette\.json: cannot be read as a cassette"):
        made.one("  expect: {}")


# --- deaths ----------------------------------------------------------------------------------------------------------

CONFLUENT = """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
- step: a
  tool: {kind: http, url: x, spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, delay: 5}}]}}}
  set: {ctx.a: "{{ output.data }}"}
  next: {arcs: [{step: all}]}
- step: b
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel, policy: {reduce: {ctx.sum: sum}}}}
  tool: {kind: shell, cmd: x, set: {ctx.sum: "{{ output.data }}"}}
  next: {arcs: [{step: all, when: "{{ event.name == 'loop.done' }}"}]}
- {step: c, tool: {kind: wait, signal: go}, next: {arcs: [{step: call}]}}
- {step: call, tool: {kind: playbook, path: other}, next: {arcs: [{step: all}]}}
- {step: all, spec: {policy: {admit: {join: {from: [a, b, call]}}}}, tool: {kind: noop, output: "{{ ctx.a }} {{ ctx.sum }}"}}
"""


def test_a_run_killed_at_every_write_ends_as_if_nothing_had_happened(bench: Make) -> None:
    made = bench(CONFLUENT)
    child = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: other}\nworkflow:\n"
    made.put("other.yaml", child + "- {step: s, tool: [{kind: wait, seconds: 3}, {kind: shell, cmd: x}]}\n")
    result = made.one(
        """
  mocks:
    a: {attempts: [{error: x}, {data: fine}]}
    b: {data: "{{ iter.n }}", delay: 2}
    "other:s": {data: done}
  signals: [{name: go}]
  expect: {output: fine 6}
""".replace('"other:s"', '"other:task_2"'),
        crash=True,
    )
    assert said(result) == []
    assert result.deaths is not None
    assert result.done is not None
    assert result.deaths.points == 2 * result.done.writes > 20


def test_a_run_whose_end_depends_on_a_death_is_told_with_the_event(bench: Make) -> None:
    """A counter outside of the log counts a task twice that is cut short: its mock stands for such a one."""
    made = bench('\n- {step: count, tool: {kind: shell, cmd: "echo x >> n.txt; wc -l < n.txt"}}\n')
    result = made.one("  real: [shell]\n  expect: {output: {exit_code: 0}}", crash=True)
    assert result.status == "failed"
    assert any(
        one.startswith("killed at the write behind event") and "task.started of count.count" in one
        for one in said(result)
    )
    assert "it ends otherwise: `output.stdout` is" in said(result)[0]


def test_a_death_has_a_place_in_words() -> None:
    assert crash_check.CrashDifference(None, after=False, message="x").where == "killed before the first event"
