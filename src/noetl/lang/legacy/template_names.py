"""Names inside templates, lowered: what older documents called `outcome`, `context`, `vars`, or by a bare name.

The one pass that reads every template of the document. What a bare name meant depends on where it stands: the element
of the step's loop, an earlier task of the pipeline, a key of the workload, the result of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial

from noetl.expr import MOST_CHARACTERS, PathRead, has_template, template
from noetl.lang.legacy.lowered_document import MARK, V10, Lowering, add_set, task_items
from noetl.lang.legacy.name_meanings import (
    NameContext,
    caller_inputs,
    declares,
    elements_of,
    of_output,
    publisher,
    rename_event,
    rename_keychain,
    rename_null,
    rename_outcome,
    rename_output,
    sugar_conditions,
    targets,
    writes,
)
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.legacy.scanner import EVENTS, LITERAL, SCOPES, is_envelope
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, list_of, map_of, text_of

_OUTPUT_WORDS = frozenset({"this", "result", "response"})
_HABITS = ("job", "env", "payload", "error", "_err", "args", "loop_index", "_loop_index")
_MOST_BROKEN = 1_000


def lower(doc: Lowering) -> None:
    """Rename everything that older documents called otherwise."""
    _NameLowering(doc).run()


class _NameLowering:
    def __init__(self, doc: Lowering) -> None:
        self.doc = doc
        self.workload = doc.workload_keys()
        self.steps = {text_of(step, "step"): step for step in doc.steps()}
        #: steps whose result somebody reads
        self.wanted: dict[str, Scalar] = {}
        #: templates that do not parse
        self.broken = 0
        self.by_root: dict[str, Callable[[NameChain, NameContext, Scalar], ChainRename | None]] = {
            "outcome": partial(rename_outcome, doc),
            "output": partial(rename_output, doc),
            "event": partial(rename_event, doc),
            "step": self.status,
            "iter": self.outside_loop,
            "null": partial(rename_null, doc),
            "keychain": partial(rename_keychain, doc),
            "context": self.context,
            "vars": self.vars,
            **dict.fromkeys(_HABITS, self.habit),
        }

    def run(self) -> None:
        for step in list(self.doc.steps()):
            self.step(step)
        workbook = map_of(self.doc.root, "workbook")
        given = caller_inputs(self.doc) if workbook is not None else {}
        for one in workbook.entries if workbook is not None else []:
            scene = NameContext(given=frozenset(given.get(one.name, ())), holder=one)
            block = MapNode([entry("tool", one.value)], one.value.start, one.value.end)
            self.tasks(block, scene, one)
        keychain = self.doc.root.entry("keychain")
        if keychain is not None:
            self.below(keychain.value, NameContext(holder=keychain), keychain)
        for holder, said, near in self.doc.unsure if self.doc.migrating and self.doc.found_any else []:
            self.doc.todo(holder, said, near)
        for name, near in self.wanted.items():
            add_set(self.steps[name], f"ctx.{name}", "{{ output.data }}", near)

    # --- walking -----------------------------------------------------------------------------------------------

    def step(self, step: MapNode) -> None:
        name = text_of(step, "step")
        elements = elements_of(step)
        scene = NameContext(step=step, step_name=name, elements=elements, in_loop=bool(elements))
        loop = map_of(step, "loop")
        if loop is not None:
            self.loop(loop, scene)
        tasks = list(task_items(step))
        last_kind = text_of(tasks[-1][1], "kind") if tasks else ""
        for one in step.entries:
            scene.ended = one.name in ("next", "set", "output")
            scene.before = one.name in ("input", "spec") or (scene.ended and bool(elements))
            scene.after_task = scene.ended
            scene.kind = last_kind
            if one.name == "tool":
                continue
            if one.name in ("input", "spec", "next", "set", "output"):
                server = one.name in ("next", "set")
                scene.elements = () if server or one.name == "spec" else elements
                self.below(one.value, scene, one)
        scene = NameContext(step=step, step_name=name, elements=elements, in_loop=bool(elements))
        holder = step.entry("tool")
        if holder is not None:
            for condition in sugar_conditions(holder.value):
                self.below(condition, scene, holder)
            self.tasks(step, scene, holder)

    def loop(self, loop: MapNode, scene: NameContext) -> None:
        """The items of a loop do not see its own element; those of an inner loop see the outer ones."""
        outer: tuple[str, ...] = ()
        current: MapNode | None = loop
        while current is not None:
            for one in current.entries:
                if one.name == "in":
                    self.below(
                        one.value,
                        NameContext(scene.step, scene.step_name, elements=outer, in_loop=bool(outer), before=True),
                        one,
                    )
                elif one.name == "spec":
                    inner = (text_of(current, "iterator"), *outer)
                    ended = NameContext(scene.step, scene.step_name, elements=inner, in_loop=True, after_task=True)
                    self.below(one.value, ended, one)
            outer = (text_of(current, "iterator"), *outer)
            current = map_of(current, "loop")

    def tasks(self, step: MapNode, scene: NameContext, holder: MapEntry) -> None:
        for name, task in list(task_items(step)):
            scene.kind = text_of(task, "kind")
            for one in task.entries:
                if one.name not in LITERAL:
                    scene.after_task = one.name in ("output", "set", "spec")
                    self.below(one.value, scene, holder)
            scene.earlier[name] = task

    def below(self, node: Node, scene: NameContext, holder: MapEntry) -> None:
        scene.holder = holder
        if isinstance(node, Scalar):
            if isinstance(node.value, str) and "{" in node.value and has_template(node.value):
                self.template(node, scene)
        elif isinstance(node, MapNode):
            for one in node.entries:
                self.below(one.value, scene, one if not node.flow else holder)
                scene.holder = holder
        elif isinstance(node, ListNode):
            for item in node.items:
                self.below(item, scene, holder)

    # --- one template ------------------------------------------------------------------------------------------

    def template(self, node: Scalar, scene: NameContext) -> None:
        if self.broken > _MOST_BROKEN and not self.doc.migrating:
            return  # looking into each takes long, and none of them will run
        facts = template(node.text).facts
        roots = {read.path[0] for read in facts.reads} | {call.name for call in facts.calls}
        parses = not facts.problems or all(problem.code != "template-syntax" for problem in facts.problems)
        if parses and self.is_canonical(roots, facts.reads, scene, node):
            return
        self.broken += not parses
        if not parses and len(node.text) > MOST_CHARACTERS:
            return
        node.rewrite(rewrite(node.text, lambda chain: self.chain(chain, scene, node)))

    def is_canonical(self, roots: set[str], reads: Iterable[PathRead], scene: NameContext, node: Scalar) -> bool:
        """Whether nothing in a template can be of another age; most are, and cost no second look."""
        mapped = "keychain" in roots and self.doc.secret_fields
        if roots - SCOPES or mapped or ("iter" in roots and not scene.in_loop):
            return False
        if "event" in roots and any(word in node.text for word in (*EVENTS, "step.exit")):
            return False
        if "output" in roots and ("success" in node.text or is_envelope(reads)):
            return False
        return not any(r.path[0] == "step" and r.path[1:2] and r.path[1] in self.steps for r in reads)

    def chain(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        if chain.parts[0].startswith(MARK):
            return self.own(chain, scene, node)
        root = chain.parts[0]
        known = self.by_root.get(root)
        if known is not None:
            return known(chain, scene, node)
        if root in scene.elements or root in scene.given:
            return self.local(chain, scene, node)
        if root in SCOPES or (chain.called and len(chain.parts) == 1):
            return None
        return self.bare(chain, scene, node)

    def own(self, marked: NameChain, scene: NameContext, node: Scalar) -> ChainRename:
        """A name that the document defines, whatever else goes by it."""
        root = marked.parts[0].removeprefix(MARK)
        chain = replace(marked, parts=(root, *marked.parts[1:]))
        found = self.local(chain, scene, node) if root in scene.elements or root in scene.given else None
        return found or self.bare(chain, scene, node) or ChainRename(1, root)

    def local(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename:
        """A loop's element, or what the caller gives a workbook task."""
        root = chain.parts[0]
        new = f"input.{root}"
        if root in scene.elements:
            new = "iter." + "parent." * scene.elements.index(root) + root
        self.doc.report_older("bare-name", f"the bare name `{root}`", f"`{new}`", node)
        return ChainRename(1, new)

    def outside_loop(self, _chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        # Without --legacy this is told as `iter-outside-loop`, which says the same.
        if scene.step is None or scene.in_loop or not (self.doc.accepted or self.doc.migrating):
            return None
        self.doc.report_older("habit", "`iter` outside of a loop", "`step`", node)
        return ChainRename(1, "step")

    def status(self, chain: NameChain, _scene: NameContext, node: Scalar) -> ChainRename | None:
        if len(chain.parts) > 2 and chain.parts[2] == "status" and chain.parts[1] in self.steps:
            self.doc.report_older("step-status", "`step.<id>.status`", "`steps.<id>.status`", node)
            return ChainRename(1, "steps")
        return None

    def context(self, chain: NameChain, _scene: NameContext, node: Scalar) -> ChainRename:
        self.doc.is_000 = True
        after = chain.parts[1] if len(chain.parts) > 1 else ""
        self.doc.report_older("context", "`context`", "`workload`" if after == "workload" else "`ctx`", node)
        if after in ("workload", "ctx", "steps", "execution_id"):
            return ChainRename(2, after)
        if after in self.steps and after not in self.doc.results and not self.is_written_elsewhere(after):
            self.want(after, node)
        if after in self.steps and after not in self.doc.results:
            self.doc.note_older_read(node, f"ctx.{after}")
        return ChainRename(1, "ctx")

    def vars(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        name = chain.parts[1] if len(chain.parts) > 1 else ""
        if not name:
            return None
        new = "step"
        if name in self.doc.root_vars:
            of_workload = f"workload.{self.doc.root_vars[name]}"
            self.doc.report_older("vars", f"`vars.{name}`", f"`{of_workload}`", node)
            return ChainRename(2, of_workload)
        if name in self.doc.step_vars:
            new = "ctx"
        elif name in self.workload and not writes(scene.step, f"step.{name}"):
            new = "workload"
        self.doc.report_older("vars", f"`vars.{name}`", f"`{new}.{name}`", node)
        return ChainRename(1, new)

    def habit(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        root, after = chain.parts[0], chain.parts[1] if len(chain.parts) > 1 else ""
        if root in self.workload and not after and (root != "error" or not scene.after_task):
            return self.bare(chain, scene, node)
        if root == "job" and after in ("uuid", "execution_id", "id"):
            self.doc.report_older("habit", f"`job.{after}`", "`execution_id`", node)
            return ChainRename(2, "execution_id")
        if root == "env" and after:
            self.doc.report_older("habit", f"`env.{after}`", f"`workload.{after}`", node)
            self.doc.todo(scene.holder, f"pass `{after}` in the payload; playbooks do not read the environment", node)
            return ChainRename(1, "workload")
        if root == "payload" and after:
            self.doc.report_older("habit", f"`payload.{after}`", f"`workload.{after}`", node)
            return ChainRename(1, "workload")
        if root in ("loop_index", "_loop_index") and scene.in_loop:
            self.doc.report_older("habit", f"`{root}`", "`iter.index`", node)
            return ChainRename(1, "iter.index")
        if root in ("error", "_err"):
            return self.error(chain, scene, node)
        return self.arguments(chain, scene, node) if root == "args" and not self.carries(scene) else None

    def arguments(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        """`args` where no token brings any: what the step is given, or nothing."""
        after = chain.parts[1] if len(chain.parts) > 1 else ""
        self.doc.report_older("args", f"`args.{after}`" if after else "`args`", "`input`", node, grade=V10)
        declared = scene.step is not None and declares(scene.step, after)
        if after and (declared or not scene.before):
            return ChainRename(1, "input")
        if self.doc.migrating:
            said = "no arc brings `args` to this step: write what is meant, or what holds without"
            self.doc.todo(scene.holder, said, node)
        return None

    def error(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename:
        """`error` after a task: its error; the status of a response was a part of it, and is one no longer."""
        after = chain.parts[1] if len(chain.parts) > 1 else ""
        if after in ("status", "status_code"):
            if scene.kind == "http":
                self.doc.report_older("habit", f"`{chain.parts[0]}.{after}`", "`output.http.status`", node)
                return ChainRename(2, "output.http.status")
            self.doc.todo(scene.holder, f"`{after}`: an error has a `kind`, a `message` and `retryable`", node)
        self.doc.report_older("habit", f"`{chain.parts[0]}`", "`output.error`", node)
        return ChainRename(1, "output.error")

    def carries(self, scene: NameContext) -> bool:
        """Whether tokens bring `args` to a step: then they are those, and not the step's own input."""
        return scene.step_name in self.receivers

    @cached_property
    def receivers(self) -> set[str]:
        """The steps that arcs bring `args` to."""
        arcs = (list_of(map_of(step, "next"), "arcs") for step in self.steps.values())
        items = [arc for found in arcs if found is not None for arc in found.items if isinstance(arc, MapNode)]
        return {text_of(arc, "step") for arc in items if "args" in arc}

    # --- bare names --------------------------------------------------------------------------------------------

    def bare(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        root = chain.parts[0]
        scope = self.target_scope(root, scene) or ("ctx" if root in self.doc.results else None)
        if root in self.steps and self.is_written_elsewhere(root):
            said = f"`{root}` is a step, and another step writes a `{root}`: write `ctx.{root}` and say whose it is"
            self.doc.todo(scene.holder, said, node)
            return None
        if scope is not None:
            named = self.doc.tool_results.get(root)
            if named is not None and any(task is named[1] for task in scene.earlier.values()):
                return self.earlier_task(chain, scene, node, named[1])
            if named is not None:
                add_set(publisher(*named), f"ctx.{root}", "{{ output.data }}", node)
            self.doc.report_older("bare-name", f"the bare name `{root}`", f"`{scope}.{root}`", node)
            return ChainRename(1, f"{scope}.{root}")
        if root in scene.earlier:
            return self.earlier_task(chain, scene, node, scene.earlier[root])
        if root in self.steps or root in self.workload:
            return self.step_or_workload(chain, scene, node)
        return self.out_of_scope(chain, scene, node)

    def out_of_scope(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        """A name that means nothing here: one of another place, a word for the output, or one that nothing defines."""
        root = chain.parts[0]
        if root in self.doc.bare_targets:
            said = f"`{root}` is written by another step, for itself: write it there as `ctx.{root}`, and read that"
            self.doc.todo(scene.holder, said, node)
        elif scene.step is not None and root in elements_of(scene.step):
            said = f"`{root}` is known only inside of the loop: publish what is needed with `set`"
            self.doc.todo(scene.holder, said, node)
        elif root in _OUTPUT_WORDS and scene.after_task:
            return self.output_word(chain, scene, node)
        elif root not in _OUTPUT_WORDS and self.is_given_at_the_start(root):
            return self.undefined(root, scene, node)
        return None

    def output_word(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename:
        """`this`, `result` and `response` after a task."""
        self.doc.report_older("habit", f"`{chain.parts[0]}`", "`output`", node)
        renamed = of_output(chain, scene.kind)
        if renamed.consumed == 1:
            self.doc.note_older_read(node, "output.data")
        return renamed

    def is_given_at_the_start(self, root: str) -> bool:
        """Whether a name that nothing defines may be read from the payload: not where a migration has asked about it."""
        return (self.doc.accepted or self.doc.migrating) and not self.doc.is_asked_about(root)

    def undefined(self, root: str, scene: NameContext, node: Scalar) -> ChainRename:
        """A name that nothing in the document defines: the caller of an older run gave it."""
        self.doc.report_older("bare-name", f"the bare name `{root}`", f"`workload.{root}`", node)
        said = f"nothing here defines `{root}`: pass it in the payload, or write what is meant"
        self.doc.todo(scene.holder, said, node)
        return ChainRename(1, f"workload.{root}")

    def target_scope(self, name: str, scene: NameContext) -> str | None:
        """The scope that a target named without one got, if it can be read from here."""
        scope = self.doc.bare_targets.get(name)
        if scope is None or scope == "ctx":
            return scope
        here = writes(scene.step, f"{scope}.{name}") and (scope != "iter" or scene.in_loop)
        return scope if here else None

    def step_or_workload(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename | None:
        root = chain.parts[0]
        if root in self.steps and root in self.workload:
            said = f"`{root}` is a step and a workload key: write `ctx.{root}` or `workload.{root}`"
            self.doc.todo(scene.holder, said, node)
            return None
        if root in self.steps:
            return self.step_result(chain, scene, node)
        self.doc.report_older("bare-name", f"the bare name `{root}`", f"`workload.{root}`", node)
        return ChainRename(1, f"workload.{root}")

    def earlier_task(self, chain: NameChain, scene: NameContext, node: Scalar, task: MapNode) -> ChainRename:
        """An earlier task of the same pipeline, by its name or by that of its result."""
        root = chain.parts[0]
        scope = "iter" if scene.in_loop else "step"
        if task is scene.earlier.get(root):
            self.doc.report_older("habit", f"the task's name `{root}` as its result", f"`{scope}.{root}`", node)
        else:
            self.doc.report_older("bare-name", f"the bare name `{root}`", f"`{scope}.{root}`", node)
        add_set(task, f"{scope}.{root}", "{{ output.data }}", node)
        self.doc.note_older_read(node, f"{scope}.{root}")
        return ChainRename(1, f"{scope}.{root}")

    def step_result(self, chain: NameChain, scene: NameContext, node: Scalar) -> ChainRename:
        """A step's name as its result: published in `ctx`, or simply `output` where that step has just ended."""
        root = chain.parts[0]
        own = root == scene.step_name and (scene.ended or scene.after_task)
        name = "output.data" if own else f"ctx.{root}"
        self.doc.report_older("habit", f"the step's name `{root}` as its result", f"`{name}`", node)
        after = chain.parts[1] if len(chain.parts) > 1 else ""
        if root == scene.step_name and scene.in_loop and not scene.ended and after in ("result_index", "index"):
            return ChainRename(2, "iter.index")
        if not own:
            self.want(root, node)
        self.doc.note_older_read(node, name)
        return ChainRename(1, name)

    def is_written_elsewhere(self, name: str) -> bool:
        """Whether another step than the one of that name writes `ctx.<name>`."""
        own = self.steps[name]
        if self.doc.tool_results.get(name, (own,))[0] is not own:
            return True
        return any(writer is not own for writer in self.writers.get(f"ctx.{name}", ()))

    @cached_property
    def writers(self) -> dict[str, list[MapNode]]:
        """By target, the steps that write it."""
        found: dict[str, list[MapNode]] = {}
        for step in self.steps.values():
            for target in targets(step):
                found.setdefault(target, []).append(step)
        return found

    def want(self, name: str, near: Scalar) -> None:
        if not writes(self.steps[name], f"ctx.{name}"):
            self.wanted.setdefault(name, near)
