"""Shell commands in short lines."""

from __future__ import annotations

import shlex


def in_lines(command: str, width: int = 44) -> str:
    """A shell command in short lines, each with whole options; a call in Python stays.

    >>> print(in_lines("probaudit apply calibrator.json new.csv --probs p -o out.parquet", 40))
    probaudit apply calibrator.json new.csv \\
      --probs p -o out.parquet
    """
    if not command.startswith("probaudit "):
        return command
    parts: list[str] = []
    for word in map(shlex.quote, shlex.split(command)):
        if parts and parts[-1].startswith("-") and " " not in parts[-1]:
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = [" ".join(parts[:2])]
    for part in parts[2:]:
        if len(lines[-1]) + len(part) < width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"  {part}")
    return " \\\n".join(lines)
