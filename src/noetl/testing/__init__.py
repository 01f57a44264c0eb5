"""Playbooks under test: cases with mocked tools, time that is skipped, and deaths at every write."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.testing.file_grammar import NAMED as NAMED, TEST_FILE as TEST_FILE
    from noetl.testing.suite_runner import (
        CaseFailure as CaseFailure,
        CaseResult as CaseResult,
        SuiteOptions as SuiteOptions,
        SuiteResult as SuiteResult,
        SuiteRunner as SuiteRunner,
        check_file as check_file,
    )
    from noetl.testing.test_file import ENDINGS as ENDINGS
    from noetl.testing.verification.migration_proof import (
        MigrationProof as MigrationProof,
        MigrationVerifier as MigrationVerifier,
        StepProof as StepProof,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "file_grammar": "NAMED TEST_FILE",
            "suite_runner": "CaseFailure CaseResult SuiteOptions SuiteResult SuiteRunner check_file",
            "test_file": "ENDINGS",
            "verification.migration_proof": "MigrationProof MigrationVerifier StepProof",
        },
    )
