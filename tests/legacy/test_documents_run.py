"""The examples of the documents the language comes from run: as they stand with `--legacy`, and migrated without.

What they call is near at hand: DuckDB files stand for PostgreSQL, files for S3, a scripted server for every API. What an
example leaves to its reader (`...`, a function that is not shown) is said in `EXAMPLES`; all else is the document's own
text. The documents do not belong to this repository; where they are not there, nothing is tested.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from both_ways import Scene, both_ways

sys.path.insert(0, str(Path(__file__).parents[1] / "lang"))

from match import expect_same  # type: ignore[import-not-found]
from source_documents import DOCUMENTS, blocks, wrapped  # type: ignore[import-not-found]

BLOCKS = dict(blocks())
OK: dict[str, Any] = {"json": {}}
SCORER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: %s, path: playbooks/%s}
workload: {user: {}, user_id: 0, user_data: {}}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: finalize}]}
  - {step: finalize, tool: {kind: noop, output: "%s"}}
"""


@dataclass
class Example:
    """What stands around an example, and what comes of it."""

    #: text of the document → what its reader is to put there
    filled: dict[str, str] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)
    routes: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    workbook: dict[str, Any] = field(default_factory=dict)
    only_migrated: tuple[str, ...] = ()
    expect: dict[str, Any] = field(default_factory=dict)


def get(path: str, **reply: Any) -> dict[str, Any]:
    return {"path": path, "reply": {"json": reply}}


def asked(method: str, path: str, body: Any = "", **query: str) -> dict[str, Any]:
    return {"method": method, "path": path, "query": query, "body": body}


def near_at_hand(node: Any) -> Any:
    """The same with what is here in place of what is far away."""
    if isinstance(node, list):
        return [near_at_hand(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: near_at_hand(value) for key, value in node.items()}
    if "postgres" in made:
        made = {"duckdb": near_at_hand({"kind": "postgres", **made["postgres"]})}
        made["duckdb"].pop("kind")
    place = {"postgres": "pg", "duckdb": "lake"}.get(str(made.get("kind") or made.get("storage")))
    if place is not None and "file" not in (made.get("spec") or {}):
        made["kind" if "kind" in made else "storage"] = "duckdb"
        made.pop("auth", None)
        made["file"] = f"{{{{ workload.tmp_dir }}}}/{place}.duckdb"
    if made.get("kind") == "s3":
        made = {**made, "kind": "file", "path": f"{{{{ workload.tmp_dir }}}}/{made['path']}"}
        made.pop("auth", None)
    if str(made.get("url", "")).startswith(("/", "https://example.com/")):
        made["url"] = "{{ workload.api_url }}/" + made["url"].removeprefix("https://example.com").removeprefix("/")
    return made


def playbook(name: str, example: Example) -> str:
    """The whole playbook of an example."""
    text = BLOCKS[name]
    for said, filled in example.filled.items():
        assert said in text, said
        text = text.replace(said, filled)
    document = near_at_hand(yaml.safe_load(wrapped(text)))
    document["workload"] = {**(document.get("workload") or {}), **dict.fromkeys(example.payload)}
    if example.workbook:
        document["workbook"] = example.workbook
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


EXAMPLES: dict[str, Example] = {
    # --- 000, what each part is ------------------------------------------------------------------------------------
    "000-2": Example(
        {"result: my_data  ": "next: [{step: process_data}]\n  result: my_data  "},
        routes=[get("/", id=7)],
        expect={"files": {"pg.duckdb": {"items": [{"data": '{"id":7}'}]}}, "ctx": {"my_data": {"id": 7}}},
    ),
    "000-4": Example(
        payload={"users": [{"id": 1}, {"id": 2}]},
        routes=[get("/api/users/1", name="Ann"), get("/api/users/2", name="Bo")],
        expect={"output": [{"name": "Ann"}, {"name": "Bo"}]},
    ),
    "000-6": Example(
        {"GET|POST|PUT|DELETE": "POST", "{{ token }}": "{{ context.workload.token }}",
         "{{ request_data }}": "{{ context.workload.request_data }}"},
        payload={"token": "abcdef", "request_data": {"q": 1}},
        routes=[{"method": "POST", "path": "/", "reply": {"json": {"data": {"items": [{"id": 1}, {"id": 2}]}}}}],
        expect={"files": {"pg.duckdb": {"api_responses": [{"id": 1}, {"id": 2}]}}},
    ),
    "000-7": Example(
        tables={"pg.duckdb": "CREATE TABLE users AS SELECT 1 AS id, true AS active UNION ALL SELECT 2, false"},
        expect={"files": {"lake.duckdb": {"users_replica": [{"id": 1, "active": True}]}}},
    ),
    "000-8": Example(
        {"transform(items, count)": '{"n": len(items or []) + count, "key": api_key}',
         "{{ context.my_items }}": "{{ [1, 2] }}", "{{ context.processed_count }}": "{{ 3 }}"},
        payload={"api_key": "k"},
        expect={"output": {"n": 0, "key": "k"}},
    ),
    "000-9": Example(
        tables={"pg.duckdb": "CREATE TABLE source_table AS SELECT 1 AS id UNION ALL SELECT 2"},
        expect={"files": {"pg.duckdb": {"target_table": [{"id": 1}, {"id": 2}]},
                          "lake.duckdb": {"analytics.data": [{"id": 1}, {"id": 2}]}}},
    ),
    "000-10": Example(
        files={"scorer.yaml": SCORER % ("user_scorer", "user_scorer", "{{ workload.user_id * 10 }}")},
        payload={"user": {"id": 4}},
        expect={"output": 40},
    ),
    "000-11": Example(
        tables={"pg.duckdb": "CREATE TABLE large_table AS SELECT i AS id FROM range(150) t(i)"},
        expect={"files": {"pg.duckdb": {"target_table": [{"id": n} for n in range(150)]},
                          "backup/chunk_0.parquet": [{"id": n} for n in range(100)],
                          "backup/chunk_1.parquet": [{"id": n} for n in range(100, 150)]}},
    ),
    "000-16": Example(
        payload={"webhook_url": ""},
        filled={"{{ context.workload.webhook_url }}": "{{ workload.api_url }}/hook"},
        routes=[{"method": "POST", "path": "/hook", "reply": OK}],
        expect={"requests": [asked("POST", "/hook", "1")]},
    ),
    "000-13": Example(
        {"insert|upsert|replace|append": "upsert", "sink:  ": "code: 'result = [{\"id\": 1, \"field\": 5}]'\nsink:  ",
         "db_column": "id", "tool_result.field": "tool_result.id"},
        expect={"files": {"pg.duckdb": {"output_table": [{"id": 1}]},
                          "lake.duckdb": {"analytics.data": [{"id": 1, "field": 5}]},
                          "backups/EXECUTION/data.parquet": [{"id": 1, "field": 5}]}},
    ),
    "000-17": Example(
        {"sink:\n": "code: 'result = [{\"id\": 1}]'\nsink:\n"},
        expect={"files": {"pg.duckdb": {"critical_data": [{"id": 1}]}}},
    ),
    "000-18": Example(
        {"result: my_data  ": "next: [{step: process_data}]\n  result: my_data  "},
        routes=[get("/", id=7)],
        expect={"files": {"pg.duckdb": {"responses": [{"body": '{"id": 7}', "status": 200}]}}, "ctx": {"my_data": {"id": 7}}},
    ),
    "000-19": Example(
        routes=[get("/api/users", items=[{"id": 1}, {"id": 2}])],
        expect={"output": [1, 1], "requests": [asked("GET", "/api/users")]},
    ),
    "000-20": Example(
        routes=[get("/api/data", id=7, timestamp="today")],
        expect={"files": {"pg.duckdb": {"raw_data": [{"body": {"$re": "7"}, "headers": {"$re": "content-type"}}]},
                          "backup/today.json": {"$re": "7"}}},
    ),
    "000-21": Example(
        {"result: item_results  ": "next: [{step: summarize}]\n  result: item_results  "},
        payload={"items": [{"id": 1}, {"id": 2}]},
        routes=[get("/api/items/1", name="a"), get("/api/items/2", name="b")],
        expect={"ctx": {"item_results": [{"name": "a"}, {"name": "b"}]},
                "files": {"pg.duckdb": {"items": [{"item_id": 1, "response": '{"name": "a"}'},
                                                  {"item_id": 2, "response": '{"name": "b"}'}]}}},
    ),
    "000-22": Example(
        payload={"items": [{"id": 1}, {"id": 2}]},
        routes=[get("/api/process/1", name="a"), get("/api/process/2", name="b")],
        expect={"ctx": {"all_responses": [{"name": "a"}, {"name": "b"}]}, "output": 1},
    ),
    # --- 000, the complete examples --------------------------------------------------------------------------------
    "000-23": Example(
        routes=[get("/large_dataset", data={"items": [{"id": n} for n in range(150)]})],
        expect={"files": {"pg.duckdb": {"api_cache": [{"id": n} for n in range(150)]},
                          "backups/chunk_0.parquet": [{"id": n} for n in range(100)],
                          "backups/chunk_1.parquet": [{"id": n} for n in range(100, 150)]}},
    ),
    "000-24": Example(
        payload={"users": [{"id": 1}, {"id": 2}]},
        tables={"pg.duckdb": "CREATE TABLE activity_logs AS SELECT 1 AS user_id, 'in' AS what UNION ALL SELECT 2, 'out'"},
        expect={"files": {"lake.duckdb": {"user_activity_1": [{"user_id": 1, "what": "in"}],
                                          "user_activity_2": [{"user_id": 2, "what": "out"}]}},
                "output": {"users_processed": 2, "total_activities": 0}},
    ),
    "000-25": Example(
        tables={"pg.duckdb": "CREATE TABLE large_table AS SELECT 1 AS id, 'Ann' AS full_name, '2024-02-01' AS created_at, "
                             "DATE '2024-02-01' AS date UNION ALL SELECT 2, 'Bo', '2023-02-01', DATE '2023-02-01'"},
        expect={"files": {"pg.duckdb": {"replicated_table": [{"id": 1, "name": "Ann", "created": "2024-02-01"}]},
                          "lake.duckdb": {"analytics.facts": [{"id": 1, "full_name": "Ann"}]},
                          "archives/EXECUTION/chunk_0.parquet": [{"id": 1, "full_name": "Ann"}]}},
    ),
    "000-26": Example(
        {"result: users  ": "next: [{step: enrich_users}]\n  result: users  ",
         "compute_metrics(enriched_users)": "len(enriched_users)", "context.workload.enrichment_api": "workload.api_url"},
        routes=[get("/users", data=[{"id": 1}, {"id": 2}]),
                {"method": "POST", "path": "/enrich", "reply": {"json": {"credit_score": 5}}}],
        expect={"output": 2,
                "files": {"pg.duckdb": {"enriched_users": [{"user_id": n, "enrichment_data": '{"credit_score": 5}'}
                                                           for n in (1, 2)]}}},
    ),
    "000-27": Example(
        {"tool:\n": "tool:\n  kind: postgres\n", "FROM table ": "FROM source ", "- kind: postgres": "- {kind: postgres, table: copied}"},
        tables={"pg.duckdb": "CREATE TABLE source AS SELECT i AS id FROM range(5) t(i)"},
        expect={"files": {"pg.duckdb": {"copied": [{"id": 1}, {"id": 2}, {"id": 3}]}}},
    ),
    "000-28": Example(
        {"result: final_data  ": "next: [{step: use_data}]\n  result: final_data  ",
         "- kind: postgres\n": "- kind: postgres\n        table: raw\n", "- kind: s3\n": "- kind: s3\n        path: raw.json\n"},
        routes=[get("/api/data", id=7)],
        expect={"ctx": {"final_data": {"id": 7}},
                "files": {"pg.duckdb": {"raw": [{"raw": '{"id":7}'}]}, "raw.json": {"$re": "7"}}},
    ),
    "000-29": Example(
        payload={"user_id": 12},
        workbook={"my_task": {"kind": "python", "code": "def main(user_id):\n    return {'id': user_id}\n"}},
        expect={"ctx": {"user_data": {"id": 12}}, "files": {"pg.duckdb": {"user_cache": [{"id": 12}]}}},
    ),
    "000-30": Example(
        payload={"user_id": 12},
        workbook={"my_task": {"kind": "python", "code": "def main(user_id):\n    return {'id': user_id}\n"}},
        expect={"ctx": {"user_data": {"id": 12}}, "files": {"pg.duckdb": {"user_cache": [{"data": '{"id":12}'}]}}},
    ),
    "000-31": Example(
        {"  kind: python\n": "  kind: python\n  args: {user_data: {rating: 4}}\n"}, expect={"output": {"score": 40}}
    ),
    "000-32": Example(
        files={"scoring/calculator.py": "def compute_user_score():\n    return 40\n"}, expect={"output": 40}
    ),
    "000-33": Example(
        {"{{ file_path }}": "{{ workload.file_path }}"},
        payload={"file_path": "scores.csv", "csv_path": "scores.duckdb"},
        files={"scores.csv": "id,score\n1,5\n"},
        expect={"output": [{"id": 1, "score": 5}]},
    ),
    "000-35": Example(payload={"score": 60}, expect={"steps": {"medium_score_path": {"runs": 1}}}),
    "000-38": Example(
        # the two run beside one another: what one of them finds is not there for the other
        {"{{ api }}": "{{ workload.api_url }}", 'user: "{{ user_raw }}"': 'user: "{{ workload.user_id }}"'},
        payload={"user_id": 5},
        routes=[get("/users/5", id=5)],
        files={"scorer.yaml": SCORER % ("user_scorer", "user_scorer", "{{ {'value': 50} }}")},
        expect={"ctx": {"user_profile": {"id": 5, "score": 50}},
                "files": {"pg.duckdb": {"public.user_profiles": [{"id": 5, "score": 50}]}}},
    ),
    "000-39": Example(
        payload={"users": [{"name": "Ann", "age": 40}, {"name": "Bo", "age": 25}]},
        files={"scorer.yaml": SCORER % ("user_profile_scorer", "user_profile_scorer",
                                        "{{ {'profile_score': workload.user_data.age / 10} }}")},
        workbook={"summarize_scores": {"kind": "python", "code": "def main(scores):\n    return max(s['score'] for s in scores)\n"}},
        expect={"ctx": {"scores_summary": 4.0},
                "files": {"pg.duckdb": {"public.user_profile_results": [{"id": "EXECUTION:Ann", "score": 4.0},
                                                                        {"id": "EXECUTION:Bo", "score": 2.5}]}}},
    ),
    # --- the programs of 002, 003 and 004 --------------------------------------------------------------------------
    "002-2": Example(
        {"10[...]": "10\n            delay: 0.01", "pagination_test_results (...)": "pages VALUES ({{ iter.page }})"},
        payload={"endpoints": [{"path": "/a", "page_size": 2}, {"path": "/b", "page_size": 5}]},
        routes=[
            {"path": "/a", "query": {"page": 1},
             "replies": [{"status": 429, "json": {}}, {"json": {"data": [1, 2], "paging": {"hasMore": True, "page": 1}}}]},
            {"path": "/a", "query": {"page": 2}, "reply": {"json": {"data": [3], "paging": {"hasMore": False, "page": 2}}}},
            get("/b", data=[], paging={}),
        ],
        tables={"pg.duckdb": "CREATE TABLE pages (page INT)"},
        expect={"steps": {"validate_results": {"runs": 1}},
                "files": {"pg.duckdb": {"pages": [{"page": 1}, {"page": 1}, {"page": 2}]}}},
    ),
    "003-5": Example(
        {"delay: 2.0": "delay: 0.01", "results_ok (...)": "results_ok VALUES ({{ iter.page }})",
         "results_not_found (...)": "results_not_found VALUES ({{ iter.endpoint.path }})"},
        payload={"endpoints": [{"path": "/users", "page_size": 2}, {"path": "/none", "page_size": 2}]},
        routes=[
            {"path": "/users", "query": {"page": 1},
             "replies": [{"status": 503, "json": {}}, {"json": {"data": [1, 2], "paging": {"hasMore": True, "page": 1}}}]},
            {"path": "/users", "query": {"page": 2}, "reply": {"json": {"data": [3], "paging": {"hasMore": False, "page": 2}}}},
        ],
        tables={"pg.duckdb": "CREATE TABLE results_ok (page INT); CREATE TABLE results_not_found (path TEXT)"},
        expect={"steps": {"validate_results": {"runs": 1}},
                "files": {"pg.duckdb": {"results_ok": [{"page": 1}, {"page": 2}], "results_not_found": [{"path": "/none"}]}}},
    ),
    "004-7": Example(
        {"delay: 2 }": "delay: 0.01 }"},
        routes=[{"path": "/ping", "replies": [{"status": 503, "json": {}}, {"json": {"pong": True}}]}],
        expect={"steps": {"end": {"runs": 1}}, "requests": [asked("GET", "/ping"), asked("GET", "/ping")]},
    ),
}  # fmt: skip
#: what is no example of anything that runs
NOT_RUN = {
    **dict.fromkeys(("000-0", "000-3", "000-5", "000-12", "000-34", "000-36"), "says what may stand where"),
    **dict.fromkeys(("000-14", "000-15"), "is 000-13 once more, one sink at a time"),
    "000-1": "shows how values are read, of steps that it does not show",
    "000-37": "shows a gate that waits for steps that nobody calls",
    **dict.fromkeys(("002-0", "002-1", "003-1", "003-2", "003-3", "003-4"), "says what may stand where"),
    **{f"004-{number}": "says what may stand where" for number in range(1, 7)},
    **dict.fromkeys(("003-0", "004-0"), "declares credentials that nothing uses"),
    **{
        f"001-{number}": "lost its indentation; `examples/doc001-*` of the conformance suite run it"
        for number in range(11)
    },
}


@pytest.mark.skipif(not DOCUMENTS, reason="the source documents are not part of this repository")
def test_every_block_is_run_or_is_no_example() -> None:
    assert not EXAMPLES.keys() & NOT_RUN.keys()
    assert EXAMPLES.keys() | NOT_RUN.keys() == BLOCKS.keys()


@pytest.mark.skipif(not DOCUMENTS, reason="the source documents are not part of this repository")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_it_stands_and_migrated_with_the_same_outcome(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    scene = Scene(example.routes, example.files, example.payload, tables=example.tables)
    found = both_ways(playbook(name, example), tmp_path, scene, only_migrated=example.only_migrated)
    assert found.status == "completed", found.error
    for part, value in example.expect.items():
        expect_same(part, value, getattr(found, part), subset=part in ("ctx", "files", "steps"))
