"""A product of a hundred gates, for what maps products: mapping it takes a second.

It has 256 words that a clock reads, and 3 words, of 5 bits, that are read within the cycle.
"""

import json

from diastole.synth.mapper import Design

MACHINE = """module t (input aclk, input aresetn, input [7:0] a, input [7:0] b, output reg [7:0] o);
  wire [7:0] x, y, z;
  wire [4:0] w;
  t_adds s (.clk(aclk), .a(a), .b(b), .o(x));
  t_adds s2 (.clk(aclk), .a(x), .b(b), .o(y));
  t_words words (.clk(aclk), .a(x), .d(y), .q(z));
  t_queue queue (.clk(aclk), .en(a[7]), .to(a[1:0]), .of(b[1:0]), .d(y[4:0]), .q(w));
  always @(posedge aclk) o <= z ^ y ^ w;
endmodule
module t_adds (input clk, input [7:0] a, input [7:0] b, output reg [7:0] o);
  always @(posedge clk) o <= a + b;
endmodule
"""
MEMORIES = """module t_words (input clk, input [7:0] a, input [7:0] d, output reg [7:0] q);
  reg [7:0] words [0:255];
  always @(posedge clk) begin
    words[a] <= d;
    q <= words[d];
  end
endmodule
module t_queue (input clk, input en, input [1:0] to, input [1:0] of, input [4:0] d, output [4:0] q);
  reg [4:0] words [0:2];
  assign q = words[of];
  always @(posedge clk) if (en) words[to] <= d;
endmodule
"""
_WRITE = {"kind": "write", "clock": "clk"}
MANIFEST = {
    "top": "t",
    "files": [
        {"path": "t.v", "kind": "verilog"},
        {"path": "t_bb.v", "kind": "blackbox"},
        {"path": "t_words.v", "kind": "memory"},
    ],
    "ports": [
        {"name": "aclk", "direction": "input", "width": 1},
        {"name": "aresetn", "direction": "input", "width": 1},
        {"name": "a", "direction": "input", "width": 8},
        {"name": "b", "direction": "input", "width": 8},
        {"name": "o", "direction": "output", "width": 8},
    ],
    "memories": [
        {
            "module": "t_words",
            "width": 8,
            "depth": 256,
            "instances": 1,
            "ports": [_WRITE, {"kind": "read", "clock": "clk", "latency_cycles": 1}],
        },
        {
            "module": "t_queue",
            "width": 5,
            "depth": 3,
            "instances": 1,
            "ports": [_WRITE, {"kind": "read", "latency_cycles": 0}],
        },
    ],
    "macs": 4,
}
CONTENTS = {"t.v": MACHINE, "t_bb.v": "no memory", "t_words.v": MEMORIES}
DESIGN = Design.of_contents(CONTENTS, MANIFEST)
REGISTERS = 24
"""Of the machine; the word that the clock reads is in the memory, or beside it."""
QUEUE_BITS = 15
"""Of the memory that is read within the cycle."""


def write_product(folder):
    """As `generate` would leave it, as far as mapping reads it."""
    for path, text in CONTENTS.items():
        (folder / path).write_text(text)
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    return folder
