"""Machines that do programs, with a fault or a clock."""

from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.spec.registers import WAIT_REGISTERS


class Clocked(GoldenMachine):
    """Counts ten cycles for a command, of which four wait for operands."""

    counted = 0

    def run_at(self, address, count):
        outcome = super().run_at(address, count)
        self.counted = outcome.done
        return outcome

    def counters(self):
        waits = dict.fromkeys(WAIT_REGISTERS.values(), 0) | {"wait_load": 4 * self.counted}
        return {"cycles_total": 10 * self.counted, "busy_slots": 6 * self.counted} | waits


def faulty(spoil, *, number, step):
    """A machine on which ``spoil(machine)`` is done behind the command of that number, in a step,
    where commands are run one by one."""

    class Faulty(GoldenMachine):
        def run_at(self, address, count):
            hit = count == number + 1 and self.step == step and address == self.training
            outcome = super().run_at(address, count)
            if hit:
                spoil(self)
            return outcome

        training = -1

    return Faulty
