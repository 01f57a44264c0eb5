"""Tones: the colours of tool kinds, roles and badges, in every format that has colours."""

import msgspec

#: the tool kinds that look like nobody else
KINDS = frozenset(
    (
        "http",
        "python",
        "postgres",
        "duckdb",
        "shell",
        "playbook",
        "workbook",
        "transfer",
        "wait",
        "resolve",
        "secrets",
        "noop",
    )
)


class Tone(msgspec.Struct, frozen=True):
    """A colour and its tint, for light and for dark pages."""

    ink: str
    tint: str
    dark_ink: str
    dark_tint: str


TONES = {
    "http": Tone("#2f63c0", "#e9f0fc", "#8db4f7", "#1c2a45"),
    "python": Tone("#86660c", "#faf2da", "#e2c266", "#332c17"),
    "postgres": Tone("#1b7285", "#e0f2f5", "#74c8d8", "#15333b"),
    "duckdb": Tone("#a95a12", "#fceedd", "#efab66", "#3a2916"),
    "shell": Tone("#48525f", "#ebeef2", "#b3bccb", "#282f3a"),
    "playbook": Tone("#5450c0", "#edecfb", "#aeabf6", "#26264a"),
    "workbook": Tone("#8146ad", "#f5ebfb", "#d0a3f1", "#34234a"),
    "transfer": Tone("#28744a", "#e3f4ea", "#7fcf9f", "#183426"),
    "wait": Tone("#9a4666", "#fbebf1", "#ea9fba", "#3c2331"),
    "resolve": Tone("#4a7322", "#eef5e2", "#a8d07a", "#26351a"),
    "secrets": Tone("#9c4232", "#fceae6", "#f0a090", "#3d251f"),
    "noop": Tone("#667085", "#eff1f5", "#a3adbd", "#262c37"),
    "plugin": Tone("#4e5d7c", "#eaeef6", "#a9b8d6", "#242d3f"),
    "pipeline": Tone("#475069", "#eceef4", "#b6bfd3", "#272d3b"),
    "router": Tone("#667085", "#eff1f5", "#a3adbd", "#262c37"),
    "end": Tone("#28744a", "#e3f4ea", "#7fcf9f", "#183426"),
    "gate": Tone("#6a4bb0", "#f1edfb", "#bfa8f2", "#2c2547"),
    "loop": Tone("#14706b", "#e0f3f1", "#71cbc4", "#143431"),
    "retry": Tone("#566074", "#eff1f5", "#aab4c5", "#262c37"),
    "jump": Tone("#566074", "#eff1f5", "#aab4c5", "#262c37"),
    "clock": Tone("#566074", "#eff1f5", "#aab4c5", "#262c37"),
    "spark": Tone("#94630a", "#fcf1da", "#ecc063", "#372c15"),
}


def icon_kind(kind: str) -> str:
    """The kind whose icon and colour stand for a kind: those of plugins share one."""
    return kind if kind in KINDS else "shell" if kind == "script" else "plugin"
