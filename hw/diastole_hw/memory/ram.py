"""Memory with one write port and one clocked read port. Products contain no further kind of clocked
memory."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.require import require_int

_TEMPLATE = """\
// {depth} words of {width} bits, one write port and one read port: block RAM, or to be replaced.
// Contract: a word can be read from the cycle after its write on; a read in the cycle of the write
// may give anything, and no machine uses it. read_data comes a cycle after read_en, and holds while
// read_en is low. Words and read_data start undefined, and addresses are below {depth}.
module {module} (
  input clk,
  input write_en,
  input [{address}:0] write_addr,
  input [{data}:0] write_data,
  input read_en,
  input [{address}:0] read_addr,
  output reg [{data}:0] read_data
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

  always @(posedge clk) begin
    if (write_en) ram_words[write_addr] <= write_data;
    if (read_en) read_data <= ram_words[read_addr];
  end
endmodule
"""


def behaviour(template: str, module: str, width: int, depth: int) -> str:
    """Return the Verilog of a memory: a template with name and sizes filled in."""
    return template.format(
        module=module,
        width=width,
        depth=depth,
        address=len(Signal(range(depth))) - 1,
        data=width - 1,
        last=depth - 1,
    )


class Ram(wiring.Component):
    """Store ``depth`` words of ``width`` bits, with one write port and one read port on the same
    clock.

    Timing: reads see a write with ``write_en`` from the next cycle on. ``read_data`` is the word at
    ``read_addr`` one cycle after ``read_en``, and holds while ``read_en`` is low. A read of a word
    in the cycle of its write returns the old word or anything. Users avoid such reads. Addresses of
    ``depth`` and above are not checked. Contents and ``read_data`` start undefined.

    The emission makes the memory a module of its own, which a flow can replace.

    Parameters
    ----------
    width, depth : int
        Bits of a word (1 to 65536); words (2 to 2**24).

    Members
    -------
    write_en, write_addr, write_data : In(1), In(range(depth)), In(width)
    read_en, read_addr : In(1), In(range(depth))
    read_data : Out(width)

    ValueError if out of range.
    """

    read_latency_cycles = 1

    def __init__(self, *, width: int, depth: int):
        require_int("width", width, 1, 65536)
        require_int("depth", depth, 2, 2**24)
        self.width, self.depth = width, depth
        super().__init__(
            {
                "write_en": In(1),
                "write_addr": In(range(depth)),
                "write_data": In(width),
                "read_en": In(1),
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
        write, read = words.write_port(), words.read_port()
        m.d.comb += [
            write.en.eq(self.write_en),
            write.addr.eq(self.write_addr),
            write.data.eq(self.write_data),
            read.en.eq(self.read_en),
            read.addr.eq(self.read_addr),
            self.read_data.eq(read.data),
        ]
        return m
