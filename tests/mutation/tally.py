"""What became of a machine's faults, said as it is found, and whether that is enough."""

from mutation.plant import Planted
from mutation.run import EQUAL, FAILED, NOTICED, SURVIVES, Verdict
from mutation.survivors import NOT_ARGUED, SAID_EQUAL, argued, said_equal, shortened

SHARE = 0.95
"""Of the live random faults of a machine that must be noticed."""


class Tally:
    """``machine``: its name. ``good``: no fault placed by hand has survived, every random one that
    did is argued, and no check has failed; ``enough``: that :data:`SHARE` is noticed as well."""

    def __init__(self, machine: str):
        self.machine, self.good = machine, True
        self._found = dict.fromkeys((NOTICED, EQUAL, SAID_EQUAL, SURVIVES, FAILED), 0)

    def by_hand(self, fault: Planted, seen: Verdict) -> None:
        self.good &= seen.verdict == NOTICED
        print(f"{fault.name:45} {seen.verdict:9} {seen.seconds:5.1f} s  {seen.why}", flush=True)

    def random(self, fault: Planted, seen: Verdict) -> None:
        verdict, why = seen.verdict, seen.why
        if verdict == SURVIVES:
            if said_equal(self.machine, fault.name):
                verdict = SAID_EQUAL
            why = argued(self.machine, fault.name)
            self.good &= why != NOT_ARGUED
        if verdict in (SURVIVES, SAID_EQUAL, FAILED):
            short = shortened(fault.name)
            print(f"{short}\n    {verdict}: {why} ({seen.seconds:.0f} s)", flush=True)
            if why == NOT_ARGUED and short != fault.name:
                print(f"    in full: {fault.name}", flush=True)
        self.good &= verdict != FAILED
        self._found[verdict] += 1

    def enough(self) -> bool:
        """Says the share, if a fault was drawn."""
        found = self._found
        live = found[NOTICED] + found[SURVIVES]
        if not live:
            return self.good
        share = found[NOTICED] / live
        equal = f"{found[EQUAL]} proved and {found[SAID_EQUAL]} argued to be equal"
        print(f"random: {found[NOTICED]} of {live} noticed, {share:.1%}; not live are {equal}")
        return self.good and share >= SHARE
