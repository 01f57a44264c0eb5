"""The documentation is true: generated pages are up to date, links lead somewhere, playbooks validate, output is real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forkserver import ForkServer
from waiting import wait_until

from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import generate  # noqa: E402  it is a script beside the pages

pytestmark = pytest.mark.usefixtures("forkserver")
PAGES = sorted([*ROOT.glob("*.md"), ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")])
#: every page of the repository, beside those of the documentation
ALL_PAGES = sorted(
    {*PAGES, *(page for part in ("bench", "examples", "src", "tests") for page in (ROOT / part).rglob("*.md"))}
)
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
DECISION = re.compile(r"\d{4}-[a-z-]+")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def playbooks() -> list[tuple[str, str]]:
    """Every whole playbook that a page shows as something to write."""
    found = []
    for page in PAGES:
        for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
            if language == "yaml" and "apiVersion:" in text and "workflow:" in text:
                found.append((name(page), text))
    return found


@pytest.mark.parametrize("path", generate.generated())
def test_a_generated_page_is_as_it_would_be_made(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == generate.made(path), "`make docs` writes it"


def test_each_common_mistake_is_found() -> None:
    mistakes = generate.mistakes()
    assert len(mistakes) >= 15
    for one in mistakes:
        assert load(one["playbook"], ToolKinds()).diagnostics, one["title"]


def test_every_playbook_that_is_shown_validates() -> None:
    shown = playbooks()
    assert len(shown) >= 4
    told = [(page, found.code, found.message) for page, text in shown for found in load(text, ToolKinds()).diagnostics]
    assert told == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=name)
def test_a_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in LINK.findall(text):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = (page.parent / file).resolve() if file else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_page_of_the_documentation_is_linked_from_the_readme() -> None:
    linked = {target.partition("#")[0] for target in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    pages = [name(page) for page in PAGES if name(page).startswith("docs/")]
    assert [page for page in pages if page not in linked and not page.startswith("docs/decisions/")] == []


def anchors(page: Path) -> set[str]:
    lines = FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    headings = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w-]", "", heading.replace(" ", "-")) for heading in headings}


def test_a_decision_has_its_three_parts_and_fits_on_a_page() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [path.stem[:4] for path in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    for path in decisions:
        assert DECISION.fullmatch(path.stem)
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert len(text.splitlines()) <= 60


def noetl(folder: Path, *arguments: str) -> str:
    done = ForkServer.shared.run(*arguments, cwd=folder, env=os.environ)
    return done.stderr + done.stdout


def test_the_tour_of_the_readme_says_what_the_program_says(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    noetl(tmp_path, "init", "demo")
    demo = tmp_path / "demo"
    assert noetl(demo, "validate", "playbooks") in readme
    hello = demo / "playbooks" / "hello.yaml"
    hello.write_text(hello.read_text(encoding="utf-8").replace("iterator: name", "iteratr: name"), encoding="utf-8")
    assert noetl(demo, "validate", "playbooks") in readme
    assert noetl(demo, "validate", "--fix", "playbooks") in readme


def test_the_playbooks_about_errors_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "route-on-errors.md").read_text(encoding="utf-8")
    errors, guard = (text for language, text in FENCE.findall(page) if language == "yaml")
    (tmp_path / "errors.yaml").write_text(errors)
    (tmp_path / "guard.yaml").write_text(guard)
    told = noetl(tmp_path, "run", "errors.yaml")
    assert 'output: "mended 3"' in told
    failed = "task start: shell: the command exited with code 3 (after 3 attempts)"
    assert (failed in told, failed in page) == (True, True)
    assert "guard completed" in noetl(tmp_path, "run", "guard.yaml")
    assert noetl(tmp_path, "why", "last", "pay") in page
    guarded = guard.replace("{{ workload.large }}", "{{ event.name == 'step.done' and workload.large }}")
    (tmp_path / "guard.yaml").write_text(guarded)
    assert "guard failed" in noetl(tmp_path, "run", "guard.yaml")


def test_the_trip_of_the_page_is_undone_and_told_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "undo-and-clean-up.md").read_text(encoding="utf-8")
    (trip,) = (text for language, text in FENCE.findall(page) if language == "yaml")
    (tmp_path / "trip.yaml").write_text(trip)
    told = noetl(tmp_path, "run", "trip.yaml")
    for line in ("undoing rooms[1]", "rooms[0] undone in", "flight undone in", "report done in", "trip failed in"):
        assert (line in told, line in page) == (True, True), line
    assert (tmp_path / "ledger.txt").read_text(encoding="utf-8") in page
    assert not (tmp_path / "garage.lock").exists()
    assert noetl(tmp_path, "rerun", "last", "--from", "car") in page


def test_the_tests_that_are_shown_pass_and_say_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "test-a-playbook.md").read_text(encoding="utf-8")
    playbook, tests = (text for language, text in FENCE.findall(page) if language == "yaml")
    (tmp_path / "refund.yaml").write_text(playbook)
    (tmp_path / "refund.test.yaml").write_text(tests)
    took = re.compile(r"\b[\d.]+ m?s\b")
    shown = took.sub("…", page)
    assert took.sub("…", noetl(tmp_path, "test")) in shown
    assert "4 passed" in noetl(tmp_path, "test", "--crash-everywhere")
    assert noetl(tmp_path, "run", "--plan", "refund.yaml", "--set", "amount=20") in page
    (tmp_path / "refund.test.yaml").write_text(tests.replace("route: [start, pay]", "route: [start, ask]"))
    assert took.sub("…", noetl(tmp_path, "test", "-k", "small")).partition("\n\n1 failed")[0] in shown


def test_a_run_is_gone_on_with_and_compared_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "rerun-and-compare.md").read_text(encoding="utf-8")
    [orders] = [text for language, text in FENCE.findall(page) if language == "yaml"]
    fixed = orders.replace("100 // discount", "100 // discount if discount else 0")
    for file, text in (("orders", orders), ("fixed", fixed), ("renamed", fixed.replace("start", "begin"))):
        (tmp_path / f"{file}.yaml").write_text(text)
    assert "orders failed" in noetl(tmp_path, "run", "orders.yaml")
    first = re.findall(r"[0-9a-z]{16}", noetl(tmp_path, "ps"))[0]
    fork = ("rerun", "last", "--from", "price[2]", "--with")
    shown = re.findall(r"[0-9a-z]{16}", page)[0]
    assert noetl(tmp_path, *fork, "fixed.yaml", "--plan").replace(first, shown) in page
    assert noetl(tmp_path, *fork, "renamed.yaml", "--plan") in page
    assert "output: [25,50,0]" in noetl(tmp_path, *fork, "fixed.yaml", "--yes")
    assert (tmp_path / "done.txt").read_text() == "fetched\n"
    said = noetl(tmp_path, "diff", first, "last")
    assert "behind price-1" in said
    assert "+            return 100 // discount if discount else 0" in said


def test_the_page_about_credentials_keeps_the_secret_it_speaks_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MAIL_LOGIN", "ann:s3cret-of-ann")
    page = (ROOT / "docs" / "howto" / "use-credentials.md").read_text(encoding="utf-8")
    report = next(text for language, text in FENCE.findall(page) if language == "yaml")
    (tmp_path / "report.yaml").write_text(report)
    (tmp_path / "token.txt").write_text("tok-canary-93af")
    assert "`crm`: the credential store has no `crm`" in noetl(tmp_path, "run", "report.yaml")
    added = noetl(tmp_path, "credential", "add", "crm", "--kind", "bearer", "--file", "token.txt")
    assert added == "crm (bearer: token) added\n"
    assert added in page
    said = noetl(tmp_path, "run", "report.yaml") + noetl(tmp_path, "logs", "last")
    assert "asking with [redacted]" in said
    assert "15" in said
    assert "tok-canary" not in said


def test_large_results_are_shown_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "large-results.md").read_text(encoding="utf-8")
    orders = next(text for language, text in FENCE.findall(page) if language == "yaml")
    (tmp_path / "orders.yaml").write_text(orders)
    assert "orders completed" in noetl(tmp_path, "run", "orders.yaml")
    [session] = [text for language, text in FENCE.findall(page) if language == "console"]
    for asked, said in re.findall(r"^\$ noetl (.*)\n((?:[^$].*\n)*)", session, re.MULTILINE):
        told = noetl(tmp_path, *asked.partition(" |")[0].split())
        assert told.startswith(said), asked
    assert (tmp_path / "checked.parquet").read_bytes().startswith(b"PAR1")


def test_the_plan_of_the_page_is_carried_out_and_told_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "plan-steps.md").read_text(encoding="utf-8")
    [planned] = [text for language, text in FENCE.findall(page) if language == "yaml"]
    (tmp_path / "planned.yaml").write_text(planned)
    assert 'output: "Hello, Grace!"' in noetl(tmp_path, "run", "planned.yaml")
    assert noetl(tmp_path, "why", "last", "greet_Ada") in page
    assert 'output: "nobody"' in noetl(tmp_path, "run", "planned.yaml", "--set", "names=[]")
    told = noetl(tmp_path, "run", "planned.yaml", "--set", 'names=["end", "end"]')
    assert "there is no step" in told or "already there" in told


def test_the_confined_code_of_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.drivers.confinement.bounds import Bounds, enforcement_failure

    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "confine-code.md").read_text(encoding="utf-8")
    [confined] = [text for language, text in FENCE.findall(page) if language == "yaml"]
    (tmp_path / "confined.yaml").write_text(confined)
    told = noetl(tmp_path, "run", "confined.yaml")
    if enforcement_failure(Bounds(strict=True)) is not None:
        assert "isolation: `isolation: strict` cannot be kept on this machine" in told
    else:
        assert 'output: ["the system","refused","refused","refused"]' in told


def test_the_count_of_the_readme_goes_on_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [count] = [text for language, text in FENCE.findall(readme) if language == "yaml"]
    (tmp_path / "count.yaml").write_text(
        count.replace("sleep 1", "test ! -e counted.txt || until [ -e go ]; do sleep 0.02; done")
    )
    counted = tmp_path / "counted.txt"
    with subprocess.Popen(
        [sys.executable, "-m", "noetl", "run", "count.yaml"], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as running:
        wait_until(counted.exists)
        running.kill()
    (tmp_path / "go").touch()
    assert "interrupted" in noetl(tmp_path, "ps")
    assert 'output: "counted"' in noetl(tmp_path, "resume", "last")
    # The task under way when it was killed may have had its effect.
    assert list(dict.fromkeys(counted.read_text().split())) == list("123456")


def test_the_page_about_runs_shows_how_a_run_with_tokens_left_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "look-at-runs.md").read_text(encoding="utf-8")
    never = next(text for language, text in FENCE.findall(page) if language == "yaml" and "name: never" in text)
    (tmp_path / "never.yaml").write_text(never)
    told = re.sub(r"\b01[0-9a-z]{14}\b", "ID", noetl(tmp_path, "run", "never.yaml")).splitlines()
    shown = re.sub(r"\b01[0-9a-z]{14}\b", "ID", page)
    assert told[-1] in shown
    assert re.sub(r"in \d+ ms", "in 2 ms", told[-2]) in shown


def test_the_page_about_killing_shows_a_script_that_tidies_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "run-and-resume.md").read_text(encoding="utf-8")
    tidy = next(text for language, text in FENCE.findall(page) if language == "yaml" and "name: tidy" in text)
    (tmp_path / "tidy.yaml").write_text(tidy)
    assert "tidy completed" in noetl(tmp_path, "run", "tidy.yaml")
    assert "half.csv" not in noetl(tmp_path, "logs", "last")
    assert not (tmp_path / "half.csv").exists()


def test_the_page_about_servers_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    page = (ROOT / "docs" / "howto" / "serve-and-follow.md").read_text(encoding="utf-8")
    (greet,) = (text for language, text in FENCE.findall(page) if language == "yaml")
    (console,) = (text for language, text in FENCE.findall(page) if language == "console")
    (tmp_path / "greet.yaml").write_text(greet)
    server = subprocess.Popen(
        [sys.executable, "-m", "noetl", "dev", "--port", "0"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        said = server.stderr.readline()
        monkeypatch.setenv("NOETL_SERVER", said.removeprefix("listening on ").partition(";")[0])
        commands = [line.removeprefix("$ noetl ").split() for line in console.splitlines() if line.startswith("$")]
        told = [noetl(tmp_path, *command) for command in commands]
        assert told[-1].strip() == console.splitlines()[-1]
    finally:
        server.terminate()
        server.communicate(timeout=120)
    assert server.returncode == 0


def test_resuming_is_told_in_the_readme_and_the_tutorial_as_the_program_tells_it() -> None:
    for page in ("README.md", "docs/tutorial.md"):
        after = (ROOT / page).read_text(encoding="utf-8").split("$ noetl resume last\n")[1]
        first, second = after.splitlines()[:2]
        assert re.fullmatch(r" +0\.000s  playbook \w+  \w{16} goes on behind event \d+", first)
        assert re.fullmatch(r" +0\.000s  \w+ goes on( at \d/\d)?", second)
