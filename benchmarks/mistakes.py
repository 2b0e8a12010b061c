"""The message that each typical mistake gets, as a Markdown table. The tests run the same mistakes:
tests/test_mistakes.py and tests/test_cli_mistakes.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.test_cli_mistakes import MISTAKES, USAGE
from tests.test_mistakes import IN_PYTHON, message_of


def run() -> None:
    print("| mistake | message |\n|---|---|")
    for name, mistake in IN_PYTHON.items():
        print(f"| {name} | {message_of(mistake).replace('|', chr(92) + '|')} |")
    print("\n| command | message |\n|---|---|")
    for command, message in (MISTAKES | USAGE).values():
        print(f"| `{command}` | {message.replace('{...}', '…')} |")


if __name__ == "__main__":
    run()
