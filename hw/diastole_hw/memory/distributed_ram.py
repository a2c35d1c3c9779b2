"""Small memory that is read within the cycle: distributed RAM of an FPGA, latches of an ASIC."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.memory.ram import behaviour
from diastole_sim.spec.require import require_int

# No RAM style is requested. Only memories with an unclocked read become distributed RAM on devices
# that have distributed RAM, and registers on devices without (iCE40). A requested style would be an
# error there.
_TEMPLATE = """\
// {depth} words of {width} bits, one write port and one read port that shows its word in the same
// cycle: distributed RAM, or to be replaced by a register file or latches. Contract: a word can be
// read from the cycle after its write on; while it is being written its read may show anything.
// No machine uses such a read. Words start undefined, and read_addr may be anything below {depth}.
module {module} (
  input clk,
  input write_en,
  input [{address}:0] write_addr,
  input [{data}:0] write_data,
  input [{address}:0] read_addr,
  output [{data}:0] read_data
);
  (* no_rw_check, ramstyle = "no_rw_check" *)
  reg [{data}:0] ram_words [0:{last}];

`ifndef SYNTHESIS
`ifndef VERILATOR
  // Simulators with unknown values start from zeros: a word that was never written is masked or
  // multiplied by 0, but unknown times 0 is unknown.
  integer word;
  initial for (word = 0; word <= {last}; word = word + 1) ram_words[word] = 0;
`endif
`endif

  assign read_data = ram_words[read_addr];

  always @(posedge clk) begin
    if (write_en) ram_words[write_addr] <= write_data;
  end
endmodule
"""


class DistributedRam(wiring.Component):
    """Store ``depth`` words of ``width`` bits, with one write port and one read port without a
    clock.

    Timing: reads see a write with ``write_en`` from the next cycle on. ``read_data`` is the word at
    ``read_addr``, in the same cycle. A read of a word in the cycle of its write returns the old
    word or anything. Users avoid such reads. Addresses of ``depth`` and above are not checked.
    Contents start undefined.

    The emission makes the memory a module of its own, which a flow can replace.

    Parameters
    ----------
    width, depth : int
        Bits of a word (1 to 4096); words (2 to 256).

    Members
    -------
    write_en, write_addr, write_data : In(1), In(range(depth)), In(width)
    read_addr : In(range(depth))
    read_data : Out(width)

    ValueError if out of range.
    """

    read_latency_cycles = 0

    def __init__(self, *, width: int, depth: int):
        require_int("width", width, 1, 4096)
        require_int("depth", depth, 2, 256)
        self.width, self.depth = width, depth
        super().__init__(
            {
                "write_en": In(1),
                "write_addr": In(range(depth)),
                "write_data": In(width),
                "read_addr": In(range(depth)),
                "read_data": Out(width),
            }
        )

    def template(self, module: str) -> str:
        """Return behavioural Verilog-2001 of the memory, as a module with the name ``module``."""
        return behaviour(_TEMPLATE, module, self.width, self.depth)

    def elaborate(self, platform):
        m = Module()
        words = memory.Memory(shape=unsigned(self.width), depth=self.depth, init=[])
        m.submodules.words = words
        write, read = words.write_port(), words.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.write_en),
            write.addr.eq(self.write_addr),
            write.data.eq(self.write_data),
            read.addr.eq(self.read_addr),
            self.read_data.eq(read.data),
        ]
        return m
