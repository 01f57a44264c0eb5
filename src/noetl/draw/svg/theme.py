"""The style sheet: one look, for light and for dark pages.

Colours are written out, not held in custom properties: converters such as librsvg know media queries better than
variables. Every rule is confined to `.noetl-net`, as the picture may stand inline in somebody's page.
"""

from noetl.draw.tones import TONES

_SANS = "Inter,'Segoe UI','Helvetica Neue',Arial,'Liberation Sans','Noto Sans','DejaVu Sans',sans-serif"
_FIXED = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"

_SHAPES = f"""
text{{font-family:{_SANS};font-size:12px}}
.title{{font-size:18px;font-weight:600}}
.name{{font-size:14px;font-weight:600}}
.row{{font-size:12.5px}}
.kind{{font-weight:600}}
.when{{font-family:{_FIXED}}}
.otherwise{{font-style:italic}}
.digit{{font-size:11px;font-weight:600}}
.section{{font-weight:600}}
.icon{{fill:none;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}}
.card{{stroke-width:1}}
.ring{{fill:none;stroke-width:1.5}}
.bar{{fill:none;stroke-width:4;stroke-linecap:round}}
.rule,.thread{{fill:none;stroke-width:1}}
.line{{fill:none;stroke-width:1.5;stroke-linecap:round}}
.failure .line,.line.failure{{stroke-dasharray:5 4}}
.far{{opacity:.4}}
.faded{{opacity:.45}}
.arc:hover .line{{stroke-width:2.5}}
"""


def _colours(look: dict[str, str]) -> str:
    return f"""
.page,.halo{{fill:{look["page"]}}}
.card,.blank{{fill:{look["card"]}}}
.card{{stroke:{look["edge"]}}}
.routed{{fill:{look["routed"]}}}
.title,.name,.row{{fill:{look["ink"]}}}
.small,.otherwise,.section{{fill:{look["muted"]}}}
.when{{fill:{look["soft"]}}}
.number{{fill:{look["number"]}}}
.digit{{fill:{look["soft"]}}}
.rule{{stroke:{look["rule"]}}}
.thread{{stroke:{look["edge"]}}}
.dot{{fill:{look["muted"]}}}
.line{{stroke:{look["line"]}}}
.head,.begin{{fill:{look["line"]}}}
.bar{{stroke:{look["bar"]}}}
.muted{{stroke:{look["muted"]}}}
.ring{{stroke:{look["good"]}}}
.good{{stroke:{look["good"]}}}
.good-fill{{fill:{look["good"]}}}
.failure .line,.line.failure,.bad{{stroke:{look["bad"]}}}
.head.failure,.when.failure,.small.failure,.bad-fill{{fill:{look["bad"]}}}
.icon.failure{{stroke:{look["bad"]}}}
.bar.gate{{stroke:{look["gate"]}}}
"""


_LIGHT = {
    "page": "#fafbfc",
    "card": "#ffffff",
    "routed": "#f4f6f9",
    "edge": "#d6dbe4",
    "rule": "#e9ecf1",
    "ink": "#1b2230",
    "soft": "#3d4658",
    "muted": "#667085",
    "line": "#8c96a8",
    "number": "#e4e8ef",
    "bar": "#4a5468",
    "gate": "#7b5fc4",
    "good": "#3d9a68",
    "bad": "#c8445a",
}
_DARK = {
    "page": "#0f1319",
    "card": "#191e27",
    "routed": "#151a22",
    "edge": "#343c4a",
    "rule": "#272e3a",
    "ink": "#e8ebf1",
    "soft": "#c3cad6",
    "muted": "#97a1b2",
    "line": "#6d788b",
    "number": "#2c3442",
    "bar": "#aab4c5",
    "gate": "#a48be8",
    "good": "#5fbf8b",
    "bad": "#ee7c8b",
}


def _confine_rules(rules: str) -> str:
    lines = []
    for rule in rules.split("\n"):
        selectors, brace, body = rule.partition("{")
        if brace:
            confined = ",".join(f".noetl-net {selector}" for selector in selectors.split(","))
            lines.append(f"{confined}{{{body}")
    return "\n".join(lines)


def _tones(*, dark: bool) -> str:
    lines = []
    for name, tone in TONES.items():
        ink, tint = (tone.dark_ink, tone.dark_tint) if dark else (tone.ink, tone.tint)
        lines.append(f".k-{name}{{fill:{ink}}}\n.i-{name}{{stroke:{ink}}}\n.t-{name}{{fill:{tint}}}")
    return "\n".join(lines)


def style_sheet() -> str:
    """The content of the picture's `<style>`."""
    light = _confine_rules(_SHAPES + _colours(_LIGHT) + _tones(dark=False))
    dark = _confine_rules(_colours(_DARK) + _tones(dark=True))
    return f"{light}\n@media (prefers-color-scheme:dark){{\n{dark}\n}}"
