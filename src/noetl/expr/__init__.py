"""Jinja2 templates, sandboxed and bounded: compiled once, evaluated many times, understood without running."""

from typing import TYPE_CHECKING

from noetl.expr.sandbox.evaluation import Budget as Budget
from noetl.expr.syntax.facts import (
    FunctionCall as FunctionCall,
    PathRead as PathRead,
    TemplateFacts as TemplateFacts,
    TemplateProblem as TemplateProblem,
    TextComparison as TextComparison,
)
from noetl.expr.syntax.segments import has_template as has_template
from noetl.expr.templates import Guard as Guard, Template as Template, guard as guard, template as template
from noetl.expr.values import TemplateValue as TemplateValue, value as value
from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.expr.embedded.shell_template import compile_command as compile_command
    from noetl.expr.embedded.sql_query import (
        BoundQuery as BoundQuery,
        Finished as Finished,
        Parameter as Parameter,
        QuotedBody as QuotedBody,
        StatementBreak as StatementBreak,
        sql_error as sql_error,
        sql_literal as sql_literal,
    )
    from noetl.expr.embedded.sql_template import compile_sql as compile_sql
    from noetl.expr.member_access import REF_FIELDS as REF_FIELDS, Ref as Ref, is_reference as is_reference
    from noetl.expr.result_policy import (
        ResultRules as ResultRules,
        Way as Way,
        find_result_reads as find_result_reads,
        find_undo_reads as find_undo_reads,
        follow_path as follow_path,
        hash_of as hash_of,
        inline_of as inline_of,
        keep_undo_scopes as keep_undo_scopes,
        may_read_scopes as may_read_scopes,
        pipeline_values as pipeline_values,
        rules_of as rules_of,
        select_paths as select_paths,
        selects as selects,
        task_values as task_values,
    )
    from noetl.expr.sandbox.evaluation import Evaluation as Evaluation
    from noetl.expr.sandbox.jsonpath import (
        find_jsonpath as find_jsonpath,
        plain_keys as plain_keys,
        problem_of as problem_of,
    )
    from noetl.expr.scopes import (
        FILTERS as FILTERS,
        FUNCTIONS as FUNCTIONS,
        OWN_FUNCTIONS as OWN_FUNCTIONS,
        STEP_HELPERS as STEP_HELPERS,
        TESTS as TESTS,
        EvaluationPoint as EvaluationPoint,
        visible_names as visible_names,
    )
    from noetl.expr.syntax.facts import MOST_CHARACTERS as MOST_CHARACTERS
    from noetl.expr.values import (
        LateValue as LateValue,
        check_path as check_path,
        failure_of as failure_of,
        is_larger as is_larger,
        loop_items as loop_items,
        patch_of as patch_of,
        render as render,
        too_large_error as too_large_error,
        values_in as values_in,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "embedded.shell_template": "compile_command",
            "embedded.sql_query": "BoundQuery Finished Parameter QuotedBody StatementBreak sql_error sql_literal",
            "embedded.sql_template": "compile_sql",
            "member_access": "REF_FIELDS Ref is_reference",
            "result_policy": "ResultRules Way find_result_reads find_undo_reads follow_path hash_of inline_of keep_undo_scopes "
            "may_read_scopes pipeline_values rules_of select_paths selects task_values",
            "sandbox.evaluation": "Evaluation",
            "sandbox.jsonpath": "find_jsonpath plain_keys problem_of",
            "scopes": "EvaluationPoint FILTERS FUNCTIONS OWN_FUNCTIONS STEP_HELPERS TESTS visible_names",
            "syntax.facts": "MOST_CHARACTERS",
            "values": "LateValue check_path failure_of is_larger loop_items patch_of render too_large_error values_in",
        },
    )
