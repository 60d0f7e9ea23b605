"""Run a file of cases: `python -m tests.cases FILE.jsonl [--split N] [--only ID]... [--list]`."""

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cases import runner

SHIPPED = Path(__file__).parent / "field_cases.jsonl.gz"
OWN = Path(__file__).parent / "own_cases.jsonl.gz"


def load(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a file, gzipped or not. LF ends a line, and nothing else: a case may hold U+2028 as it is."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return (json.loads(line) for line in text.split(b"\n") if line.strip())


def main(arguments: list[str]) -> int:
    """Print a verdict for each case; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=SHIPPED, help="JSON lines, gzipped or not")
    parser.add_argument("--split", type=int, metavar="N", help="deliver every read in parts of N bytes")
    parser.add_argument("--only", action="append", metavar="ID", help="run this case alone; may be given again")
    parser.add_argument("--list", action="store_true", help="print ids and symptoms, run nothing")
    options = parser.parse_args(arguments)
    try:
        cases = list(load(options.file))
    except (OSError, ValueError) as error:
        parser.error(f"{options.file}: {error}")
    chosen = [case for case in cases if not options.only or case.get("id") in options.only]
    if options.list:
        for case in chosen:
            print(f"{case.get('id'):8} {case.get('kind', ''):20} {case.get('symptom', '')}")
        return 0
    counts: Counter[str] = Counter()
    for case in chosen:
        verdict = runner.run(case, options.split)
        counts[verdict.word] += 1
        print(verdict, flush=True)
    print(f"{len(chosen)} cases: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return 1 if counts["fail"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
