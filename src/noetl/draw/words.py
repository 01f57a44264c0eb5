"""What a picture says about a step, in a few words: its loop, its gate, its limits, its conditions."""

import re
from typing import Any

from noetl.draw.text import clean, shorten
from noetl.model.playbook import Admission, Arc, Condition, Join, Loop, Task

_BRACES = re.compile(r"^\{\{-?(.*?)-?\}\}$", re.DOTALL)
_EVENT_NAME = re.compile(r"""event\.name\s*==\s*(["'])([\w.]+)\1""")
#: layers of a spec that are written at the step itself
_NEAR = ("step.spec", "loop.spec", "task.spec")
_FAILURES = re.compile(
    r"""==\s*["'](step\.failed|error|failed)["']   # event.name == 'step.failed', output.status == 'error'
    |["'](step\.failed|error|failed)["']\s*==
    |status\s*!=\s*["']ok["']
    |(?<!not\s)\b(event|output)\.error\b(?!\s*(is\s+none|is\s+not\s+defined|==\s*none))
    |(?<!not\s)\bfail\(""",
    re.VERBOSE | re.IGNORECASE,
)


def value_text(value: Any) -> str:
    """A number as people write it; of a template its expression."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    source = getattr(value, "source", None)
    return expression(source) if isinstance(source, str) else "…"


def expression(source: str) -> str:
    """A template's text without its braces."""
    text = clean(source)
    found = _BRACES.match(text)
    return (found.group(1) if found and "{{" not in found.group(1) else text).strip()


def condition_text(when: Condition) -> str:
    """A condition, as short as it can be said without loss."""
    text = expression(when.source)
    if text.lower() in ("true", "false"):
        return "always" if text.lower() == "true" else "never"
    return _EVENT_NAME.sub(lambda found: found.group(2), text)


def is_failure(arc: Arc) -> bool:
    """Whether an arc is there for when things went wrong, by what its condition mentions."""
    return arc.when is not None and _FAILURES.search(expression(arc.when.source)) is not None


def duration(seconds: Any) -> str:
    """`90` as `90 s`, `7200` as `2 h`; a template as its expression."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return shorten(value_text(seconds), 24)
    # A minute is better known as 60 seconds.
    for unit, size, least in (("d", 86_400, 86_400), ("h", 3_600, 3_600), ("min", 60, 120)):
        if seconds >= least and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def loop_text(loop: Loop) -> str:
    """`for each city · parallel ×50`."""
    names, inner = [clean(loop.iterator)], loop.inner
    while inner is not None:
        names.append(clean(inner.iterator))
        inner = inner.inner
    parts = ["for each " + ", ".join(names)]
    if loop.mode == "parallel":
        parts.append(f"parallel ×{shorten(value_text(loop.max_in_flight), 16)}")
    if loop.exec == "distributed":
        parts.append("distributed")
    if loop.until is not None:
        parts.append("until " + condition_text(loop.until))
    if loop.complete_when is not None:
        parts.append("enough when " + condition_text(loop.complete_when))
    return " · ".join(parts)


def gate_texts(admission: Admission) -> list[str]:
    """What holds tokens back before a step, one phrase per reason."""
    texts = []
    if admission.join is not None:
        texts.append(_join_text(admission.join))
    if admission.rules is not None:
        conditions = [rule for rule in admission.rules if rule.when is not None]
        if len(conditions) == 1 and conditions[0].when is not None:
            verb = "when" if conditions[0].allow else "unless"
            texts.append(f"{verb} {condition_text(conditions[0].when)}")
        else:
            texts.append(f"gate · {len(conditions)} rules" if conditions else "gate")
    if admission.fire == "once":
        texts.append("once")
    return texts


def _join_text(join: Join) -> str:
    several = [f"{clean(name)} ×{value_text(count)}" for name, count in join.places.items() if count not in (1, None)]
    need = "all" if join.need is None else f"{join.need} of"
    text = f"join {need} {len(join.places)}"
    if several:
        text += " · " + ", ".join(several)
    return text if join.rest == "keep" else f"{text} · {join.rest} rest"


def retries(task: Task) -> Any:
    """How often a task may be tried, None when it is never retried."""
    rules = task.policy.rules if task.policy is not None else ()
    attempts = [rule.then.attempts for rule in rules if rule.then.do == "retry"]
    numbers = [number for number in attempts if isinstance(number, int)]
    return max(numbers) if numbers and len(numbers) == len(attempts) else next(iter(attempts), None)


def jumps(task: Task) -> str | None:
    """The task a rule of this one jumps to, if any does."""
    rules = task.policy.rules if task.policy is not None else ()
    return next((rule.then.to for rule in rules if rule.then.do == "jump" and rule.then.to), None)


def task_timeout(task: Task) -> Any:
    """A timeout the step's author asked for; what a kind or the executor has by default is not worth a badge."""
    layered = task.spec.get("timeout")
    return layered.value if layered is not None and layered.origin in _NEAR else None
