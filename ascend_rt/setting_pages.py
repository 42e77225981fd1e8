"""The table of settings as people read it: for `hccl-run --help-env` and as docs/settings.md."""

from collections.abc import Sequence

from .setting_row import Kind, Setting, shown

Rows = Sequence[Setting[object]]


def help_text(rows: Rows) -> str:
    """The table for `hccl-run --help-env`."""
    parts = []
    for kind, title in _TITLES.items():
        parts.append(f"{title}\n")
        for row in rows:
            if row.kind == kind:
                unit = f" {row.unit}" if row.unit and row.default is not None else ""
                parts.append(f"  {row.name}  ({row.expected}; default: {shown(row.default)}{unit})")
                parts.append(f"      {row.sentence}\n")
    return "\n".join(parts)


def markdown(rows: Rows) -> str:
    """docs/settings.md, whole."""
    parts = [
        "# Settings\n\n"
        "Made from `ascend_rt/settings.py` by `python -m ascend_rt.settings`; `hccl-run --help-env` prints the same.\n"
        "A value that does not parse, and a misspelt `ASCEND_RT_` name, is an error (EI0001).\n"
    ]
    for kind, title in _TITLES.items():
        parts.append(f"\n## {title}\n\n| Variable | Takes | Unit | Default | Meaning |\n|---|---|---|---|---|\n")
        parts.extend(
            f"| `{row.name}` | {row.expected} | {row.unit} | {shown(row.default)} | {row.sentence} |\n"
            for row in rows
            if row.kind == kind
        )
    return "".join(parts)


_TITLES: dict[Kind, str] = {
    "system": "System: describe the job and the machine",
    "launcher": "Launcher: what torchrun, mpirun and srun tell their processes, not to be set by hand",
    "debug": "Debug: for finding a fault or measuring, remove them afterwards",
}
