"""The language: text to net, in passes, with every problem reported at once. `load` is the list of the passes."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.lang.building.effective_spec import restrict_spec as restrict_spec, restrictions as restrictions
    from noetl.lang.building.template_sites import SitePlace as SitePlace, Sites as Sites
    from noetl.lang.checks.subject import Subject as Subject, all_tasks as all_tasks
    from noetl.lang.checks.templates import check_site as check_site
    from noetl.lang.dry_runs import dry_run as dry_run
    from noetl.lang.explanation import explain_playbook as explain_playbook, explain_step as explain_step
    from noetl.lang.grammar.invariants import span as span
    from noetl.lang.grammar.json_schema import (
        check_schema as check_schema,
        playbook_schema as playbook_schema,
        schema_of as schema_of,
    )
    from noetl.lang.grammar.shape_check import check_shape as check_shape
    from noetl.lang.grammar.value_types import is_template as is_template
    from noetl.lang.known_values import KnownValues as KnownValues
    from noetl.lang.legacy import migrate as migrate
    from noetl.lang.loader import Loaded as Loaded, load_bytes as load_bytes
    from noetl.lang.planning import build_plan as build_plan, extend_net as extend_net
    from noetl.lang.printing.diagnostic_report import (
        FileReport as FileReport,
        apply_edits as apply_edits,
        escape_controls as escape_controls,
        render_text as render_text,
        summarize_problems as summarize_problems,
    )
    from noetl.lang.printing.formatter import format_text as format_text
    from noetl.lang.reading.node import (
        ListNode as ListNode,
        MapEntry as MapEntry,
        MapNode as MapNode,
        Node as Node,
        Scalar as Scalar,
        list_of as list_of,
        map_of as map_of,
        plain_value as plain_value,
        text_of as text_of,
        walk_nodes as walk_nodes,
    )
    from noetl.lang.reading.playbook_location import (
        find_code_line as find_code_line,
        find_location as find_location,
        find_workbook_location as find_workbook_location,
    )
    from noetl.lang.reading.reader import decode_text as decode_text, read_yaml as read_yaml
    from noetl.lang.schema_validation import (
        WorkloadViolation as WorkloadViolation,
        schema_failure as schema_failure,
        schema_problem as schema_problem,
        workload_violations as workload_violations,
    )
    from noetl.lang.unread_inputs import find_unread_inputs as find_unread_inputs
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "building.effective_spec": "restrict_spec restrictions",
            "building.template_sites": "SitePlace Sites",
            "checks.subject": "Subject all_tasks",
            "checks.templates": "check_site",
            "dry_runs": "dry_run",
            "explanation": "explain_playbook explain_step",
            "grammar.invariants": "span",
            "grammar.json_schema": "check_schema playbook_schema schema_of",
            "grammar.shape_check": "check_shape",
            "grammar.value_types": "is_template",
            "known_values": "KnownValues",
            "legacy": "migrate",
            "loader": "Loaded load_bytes",
            "planning": "build_plan extend_net",
            "printing.diagnostic_report": "FileReport apply_edits escape_controls render_text summarize_problems",
            "printing.formatter": "format_text",
            "reading.node": "ListNode MapEntry MapNode Node Scalar list_of map_of plain_value text_of walk_nodes",
            "reading.playbook_location": "find_code_line find_location find_workbook_location",
            "reading.reader": "decode_text read_yaml",
            "schema_validation": "WorkloadViolation schema_failure schema_problem workload_violations",
            "unread_inputs": "find_unread_inputs",
        },
    )
