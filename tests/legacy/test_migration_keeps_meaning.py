"""Older playbooks made by chance do the same when migrated, or migration leaves a TODO: it never changes a meaning silently."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from thorough import up_to

from noetl.lang.legacy import migrate
from noetl.server.core import Catalog
from noetl.testing.verification.made_up_answers import VARIANTS, AnswerVariant
from noetl.testing.verification.migration_proof import MigrationProof, MigrationVerifier
from noetl.tools.registry import ToolKinds

sys.path.insert(0, str(Path(__file__).parent))
from inline_code import InlineCode
from older_playbooks import make_playbook

KINDS = ToolKinds()
#: features whose meaning migration does not keep yet, each with what is missing; remove a feature to see it fail
EXCLUDED: dict[str, str] = {}


def _failed_before(proof: MigrationProof) -> bool:
    """Whether the older run failed: no document says what a step that failed has published to those who read it."""
    differences = [one.difference for one in proof.steps if one.difference is not None]
    return any(one.older in ("failed", "not called", []) for one in differences)


def judge(proof: MigrationProof, *, asks: bool) -> str:
    """What became of an example; a difference without a TODO is `silent`."""
    if not proof.is_same:
        return "asks" if asks else "failed before" if _failed_before(proof) else "silent"
    expected = ("no made-up answer", "after its failure")
    unknown = [
        one for one in proof.steps if one.verdict == "not compared" and not any(word in one.reason for word in expected)
    ]
    return "unknown" if unknown else "same"


@pytest.fixture(scope="module")
def prover(tmp_path_factory: pytest.TempPathFactory) -> MigrationVerifier:
    return MigrationVerifier(Catalog(KINDS), tmp_path_factory.mktemp("home"), {}, InlineCode())


def test_a_migrated_playbook_does_the_same_as_the_older_one_or_asks(prover: MigrationVerifier) -> None:
    counts: Counter[str] = Counter()
    features: Counter[str] = Counter()

    @settings(
        max_examples=up_to(20_000, 2_000), deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(seed=st.integers(0, 2**63), variant=st.sampled_from(VARIANTS))
    def check(seed: int, variant: AnswerVariant) -> None:
        text, had = make_playbook(Random(seed), EXCLUDED)
        migrated = migrate(text, KINDS)
        assert migrated is not None
        asks = any(found.code == "legacy-todo" for found in migrated.diagnostics)
        proof = prover.verify_migration(text, migrated.text, Path("made.yaml").absolute(), [variant], seed)
        verdict = judge(proof, asks=asks)
        assert verdict not in ("silent", "unknown"), f"{seed=}\n{proof}\n{text}\n{migrated.text}"
        counts[verdict] += 1
        features.update(had if verdict == "same" else ())

    check()
    # The examples are worth something: most are compared to the end, and nearly every feature is among them.
    assert counts["same"] > counts.total() / 2, counts
    assert counts["failed before"] < counts.total() / 20, counts
    assert len(features) > 60, features
