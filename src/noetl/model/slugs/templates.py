"""Slugs about templates: that they parse, and use names and filters that exist."""

from noetl.model.slugs.document import make_slug

TEMPLATES = (
    make_slug(
        "template-syntax",
        title="The template cannot be parsed",
        meaning="What stands between `{{` and `}}` is not a Jinja2 expression, or it has more than 100,000 characters.",
        why="It could not be evaluated.",
        mend="Close brackets and quotes, and check the operators.",
        wrong="""
            - step: start
              tool: {kind: noop, output: "{{ 1 + }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop, output: "{{ 1 + 1 }}"}
        """,
    ),
    make_slug(
        "template-in-when",
        title="A `when` is one expression",
        meaning="A condition is exactly one `{{ … }}`, or a literal true or false.",
        why="Any other text is never empty, so it would always hold.",
        mend="Put the whole condition into one `{{ … }}`.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end, when: "workload.n > 1"}]}
            - step: end
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end, when: "{{ workload.n > 1 }}"}]}
            - step: end
        """,
    ),
    make_slug(
        "unknown-scope",
        title="This name is not known here",
        meaning="The template reads a name or calls a function that does not exist at this place.",
        why="It would be undefined whenever it is evaluated.",
        mend="Say which scope is meant: `workload.x`, `ctx.x`, `input.x` … Data of another step must be published with `set`.",
        wrong="""
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ city }}"}
        """,
        right="""
            workload: {city: Ulm}
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ workload.city }}"}
        """,
    ),
    make_slug(
        "uncalled-function",
        title="A function is named, not called",
        meaning="The template reads `now`, `uuid`, `range`, `done` … as if it were a value.",
        why="A function is no data. It cannot be passed on or stored, and as a condition it would always hold, or never.",
        mend="Call it: `now()`, `uuid()`, `range(3)`, `done('a_step')`.",
        wrong="""
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ now }}"}
        """,
        right="""
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ now() }}"}
        """,
    ),
    make_slug(
        "unknown-filter",
        title="There is no such filter",
        meaning="The template uses a filter or test that does not exist.",
        why="It could not be evaluated.",
        mend="Use one of Jinja2's own, or `to_json`, `from_json`, `sha256`, `b64encode`, `b64decode`, `jsonpath`.",
        wrong="""
            - step: start
              tool: {kind: noop, output: "{{ 'a' | uper }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop, output: "{{ 'a' | upper }}"}
        """,
    ),
)
