"""Write the boards, the rules and the page of metrics: `python -m dashboards.generate [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dashboards.generate.board import to_json
from dashboards.generate.health.layout import health
from dashboards.generate.metrics_page import metrics_page
from dashboards.generate.rules import rules_yaml
from dashboards.generate.runtime.layout import runtime

ROOT = Path(__file__).parents[2]


def files() -> dict[Path, str]:
    """Return every generated file and its text."""
    boards = [health(), runtime()]
    return {
        **{ROOT / "dashboards/boards" / f"{made['uid']}.json": to_json(made) for made in boards},
        ROOT / "dashboards/rules/toolmend.rules.yml": rules_yaml(),
        ROOT / "docs/metrics.md": metrics_page(boards),
    }


def main() -> int:
    """Write what differs; with `--check` only say so."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.generate", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    only_check = parser.parse_args().check
    old = {
        path: text
        for path, text in files().items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in old.items():
        print(f"{'differs' if only_check else 'written'}: {path.relative_to(ROOT)}")
        if not only_check:
            path.write_text(text, "utf-8")
    return 1 if old and only_check else 0


if __name__ == "__main__":
    sys.exit(main())
