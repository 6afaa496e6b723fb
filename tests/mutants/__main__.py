"""``python -m tests.mutants`` runs every named mutant against the kit or the test that has to find it.

``--kernel N`` runs a sample of N generic mutants of the kernel against the kit and the tests next to them instead.
"""

from __future__ import annotations

import argparse
import sys

from .copies import judge, source_copy
from .kernel import check_baseline, judge_kernel, sample
from .named import MUTANTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", metavar="WORD", nargs="*", help="only mutants whose name has one of these words")
    parser.add_argument("--kernel", metavar="N", type=int, default=0, help="a sample of the kernel's mutants")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    options = parser.parse_args()
    mutants = sample(options.kernel, options.seed) if options.kernel else MUTANTS
    chosen = [one for one in mutants if not options.words or any(word in one.name for word in options.words)]
    decide, missed = judge_kernel if options.kernel else judge, 0
    with source_copy() as copy:
        if options.kernel:
            check_baseline(copy, chosen)
        for mutant in chosen:
            verdict = decide(copy, mutant)
            missed += not verdict.caught
            found_by = "" if options.kernel else f"  ({mutant.caught_by})"
            print(f"{'caught' if verdict.caught else 'MISSED'}  {mutant.name}{found_by}", flush=True)
            if verdict.caught:
                print(f"        {verdict.why}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutants are caught")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
