"""Slugs about the document itself: YAML, keys, types, words."""

from textwrap import dedent

import msgspec

# Slug: what there is to say about one code of a diagnostic.


class Slug(msgspec.Struct, frozen=True):
    """A diagnostic's code explained: what it means, why it matters, how to mend it, with an example of both."""

    code: str
    title: str
    meaning: str
    why: str
    mend: str
    #: a piece of a playbook in which it is found; steps when it starts with `- step:`, else root keys
    wrong: str = ""
    #: the same piece, mended
    right: str = ""


def make_slug(code: str, *, title: str, meaning: str, why: str, mend: str, wrong: str = "", right: str = "") -> Slug:
    """A slug whose examples are written indented, where they stand in the table."""
    return Slug(code, title, meaning, why, mend, _dedent_example(wrong), _dedent_example(right))


def _dedent_example(example: str) -> str:
    return dedent(example).strip("\n")


# Slugs of the older dialects: `legacy-<word>`, one for each old word, all of one family.


_WHY = "There is one canonical spelling of everything; older ones are lowered to it."
_MEND = (
    "`noetl migrate FILE` rewrites the file and keeps its comments. Until then `--legacy` runs it as it is, "
    "unless the message is a warning: then no flag is needed."
)

LEGACY = (
    make_slug(
        "legacy-habit",
        title="A habit of playbooks in the wild",
        meaning="No document ever described this spelling, but playbooks use it.",
        why=_WHY,
        mend=_MEND,
    ),
    make_slug(
        "legacy-todo",
        title="A person has to decide",
        meaning="The older construct can mean more than one thing; what stands there now is the likeliest.",
        why="Migration never guesses in silence: it leaves a `# TODO noetl:` comment.",
        mend="Read the comment, correct the place if need be, and remove the comment.",
    ),
    make_slug(
        "migration-todo",
        title="A decision of a migration is still open",
        meaning="`noetl migrate` left a comment `# TODO noetl:` here, and the comment is still there.",
        why="The older text could mean more than one thing, and only one of them was written.",
        mend="Read the comment, correct the place if need be, and remove the comment.",
        wrong="""
            - step: start
              # TODO noetl: pass `HOST` in the payload; playbooks do not read the environment
              tool: {kind: http, url: "https://example.com/"}
        """,
        right="""
            - step: start
              tool: {kind: http, url: "https://example.com/"}
        """,
    ),
)


def older_construct(code: str) -> Slug:
    """The slug of an older construct, by its old word."""
    word = code.removeprefix("legacy-").replace("-", " ")
    return Slug(
        code,
        title=f"An older construct: {word}",
        meaning=f"`{word}` belongs to an older dialect of the language; the message names the canonical spelling.",
        why=_WHY,
        mend=_MEND,
    )


DOCUMENT = (
    make_slug(
        "unreadable-file",
        title="The file cannot be read",
        meaning="There is no such file, it may not be read, or it is not text.",
        why="Nothing can be said about a playbook that cannot be read.",
        mend="Check the path and its permissions; save the file as UTF-8 text.",
    ),
    make_slug(
        "missing-playbook",
        title="A called playbook is not there",
        meaning="No playbook in the folder has the `path` of a `playbook` task as its path, its name or its file.",
        why="The call would fail, unless something makes the file before, or a server knows the path.",
        mend="Correct `path`: it is seen from the folder of the playbook that calls.",
    ),
    make_slug(
        "invalid-playbook",
        title="A called playbook has errors",
        meaning="The playbook that a `playbook` task calls cannot be run; the message has its first error.",
        why="The call would fail, after everything before it has been done.",
        mend="Run `noetl validate` on that file, and correct what it reports.",
    ),
    make_slug(
        "yaml-syntax",
        title="This is not YAML",
        meaning="The text does not follow the rules of YAML, or it goes beyond the limits of what is read: 8,000,000 bytes,"
        " 500,000 lines, 1,500,000 values, 64 levels, and aliases that stand for 100,000 values.",
        why="Where the structure is in doubt, everything below it would be a guess.",
        mend="Check the indentation, close brackets and quotes, and put templates in quotes.",
        wrong="""
            - step: start
              tool: {kind: noop, output: {{ workload.n }}}
        """,
        right="""
            - step: start
              tool: {kind: noop, output: "{{ workload.n }}"}
        """,
    ),
    make_slug(
        "typographic-quotes",
        title="The value stands in typographic quotes",
        meaning="“ and ” are letters to YAML: they are part of the text, and nothing is quoted.",
        why="The value is another than it looks; text processors and chats put such quotes in unasked.",
        mend="Use straight quotes. To keep the others as part of the text, put straight ones around them.",
        wrong="""
            - step: start
              tool: {kind: shell, cmd: “ls”}
        """,
        right="""
            - step: start
              tool: {kind: shell, cmd: "ls"}
        """,
    ),
    make_slug(
        "duplicate-key",
        title="A key is given twice",
        meaning="The same key stands twice in one map.",
        why="YAML readers silently keep one of the two; which one, differs.",
        mend="Keep one of the two.",
        wrong="""
            - step: start
              desc: the first
              desc: the second
              tool: {kind: noop}
        """,
        right="""
            - step: start
              desc: the first
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "unknown-key",
        title="This key has no meaning here",
        meaning="The grammar knows no such key at this place.",
        why="A misspelt key would be ignored, and with it what the author wanted.",
        mend="Use the key the message proposes. At the root, keys that begin with `x-` are free.",
        wrong="""
            - step: start
              tols: {kind: noop}
              next: {arcs: [{step: end}]}
            - step: end
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end}]}
            - step: end
        """,
    ),
    make_slug(
        "missing-key",
        title="A required key is missing",
        meaning="The map lacks a key it cannot do without.",
        why="There is no default that would be right.",
        mend="Add the key the message names.",
        wrong="""
            - step: start
              tool: {kind: http, method: GET}
        """,
        right="""
            - step: start
              tool: {kind: http, method: GET, url: "https://example.com/"}
        """,
    ),
    make_slug(
        "wrong-type",
        title="A value of another type is wanted",
        meaning="A list stands where a map is wanted, a number where text is wanted, and so on.",
        why="The value could not be used as it is.",
        mend="Write the value as the type the message names; put numbers that are text in quotes.",
        wrong="""
            - step: start
              desc: 1
              tool: {kind: noop}
        """,
        right="""
            - step: start
              desc: "1"
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "wrong-value",
        title="The value is not one of those allowed",
        meaning="The key takes only certain words or numbers, or two keys exclude each other.",
        why="Another value would have no effect, or one nobody meant.",
        mend="Use one of the values the message lists.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {spec: {mode: both}, arcs: [{step: end}]}
            - step: end
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {spec: {mode: inclusive}, arcs: [{step: end}]}
            - step: end
        """,
    ),
    make_slug(
        "bad-name",
        title="This cannot be a name",
        meaning="Names are made of letters, digits, `_` and `-`, and start with a letter or `_`.",
        why="Names are used in templates (`ctx.name`, `done('name')`) and in commands.",
        mend="Use the name the message proposes.",
        wrong="""
            - step: fetch users!
              tool: {kind: noop}
        """,
        right="""
            - step: fetch_users
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "reserved",
        title="The word has no meaning here",
        meaning="Documents about the language mention this word, and no release gives it a meaning yet.",
        why="A key that is accepted has an effect. A key without one would let you count on it.",
        mend="Write what the message says instead. `noetl migrate` removes such words and leaves a TODO for each.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end, spec: {weight: 1}}]}
            - step: end
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end}]}
            - step: end
        """,
    ),
    make_slug(
        "missing-package",
        title="What a tool needs is not installed",
        meaning="A task uses a tool, or `executor.requires` names one, whose package is not installed here.",
        why="The task would fail when it runs. As an error it stops a playbook that requires the tool before anything runs.",
        mend="Run the command of the message where the workers are. It is a warning for a task, because another worker may "
        "have the package.",
        wrong="""
            executor: {requires: {tools: [kafka]}}
            workflow:
              - step: start
                tool: {kind: noop}
        """,
        right="""
            executor: {requires: {tools: [http, python]}}
            workflow:
              - step: start
                tool: {kind: noop}
        """,
    ),
    make_slug(
        "unknown-kind",
        title="There is no such tool kind",
        meaning="No built-in kind and no installed plugin has this name.",
        why="There is nothing that could run the task.",
        mend="Use the kind the message proposes, or install the plugin that brings it.",
        wrong="""
            - step: start
              tool: {kind: htp, url: "https://example.com/"}
        """,
        right="""
            - step: start
              tool: {kind: http, url: "https://example.com/"}
        """,
    ),
    make_slug(
        "input-conflict",
        title="A key stands beside `kind` and under `input`",
        meaning="For `http`, `resolve`, `transfer` and `wait` the keys of `input` mean the same as those beside `kind`.",
        why="Which of the two values counts would be a guess.",
        mend="Keep one of the two.",
        wrong="""
            - step: start
              tool: {kind: wait, seconds: 1, input: {seconds: 2}}
        """,
        right="""
            - step: start
              tool: {kind: wait, seconds: 2}
        """,
    ),
    make_slug(
        "payload-schema",
        title="The workload does not fit its schema",
        meaning="`metadata.schema` describes the workload; a default, or the defaults merged with the payload, do not "
        "match it.",
        why="A wrong input is cheaper before the first step than after the last.",
        mend="Correct the default or the schema, or pass another value with `--set` or `--payload`.",
        wrong="""
            metadata:
              name: p
              schema: {type: object, properties: {names: {type: array}}}
            workload: {names: Ada}
            workflow:
              - {step: start, tool: {kind: noop, output: "{{ workload.names }}"}}
        """,
        right="""
            metadata:
              name: p
              schema: {type: object, properties: {names: {type: array}}}
            workload: {names: [Ada]}
            workflow:
              - {step: start, tool: {kind: noop, output: "{{ workload.names }}"}}
        """,
    ),
)
