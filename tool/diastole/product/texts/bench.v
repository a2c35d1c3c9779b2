// Self-checking bench. The bench writes registers, waits for the interrupt, and compares all of memory
// and some registers with the expected values. The bench prints PASS or FAIL. Run the bench in the
// folder that contains the folder `vectors`:
//   on Icarus: iverilog -g2012 -o bench MACHINE_tb.v $(sed s,^,../, ../MACHINE.f) && ./bench
//   on Verilator: verilator --binary --timing -Wno-fatal MACHINE_tb.v $(sed s,^,../, ../MACHINE.f)
`timescale 1ns/1ps
module MACHINE_tb;
  parameter VECTORS = "vectors";  // the folder of the data
  parameter STALLS = 1;           // 1: every channel stalls at random
  parameter LIMIT = 200000;      // cycles after which the bench gives up
  localparam [39:0] BASE = @base@;
  localparam BEATS = @beats@, BYTES = @bytes@, WRITES = @writes@, READS = @reads@;
  localparam SIZE = $clog2(BYTES);

  reg [8*BYTES-1:0] memory [0:BEATS-1];
  reg [8*BYTES-1:0] expected [0:BEATS-1];
  reg [43:0] writes [0:WRITES-1];
  reg [43:0] reads [0:READS-1];
  integer errors = 0, cycles = 0, n;
  reg [31:0] seed = 32'h1234567;
  reg [15:0] hold = 0;  // a bit for every channel, 1 in a cycle without a handshake

@signals@

  always #5 aclk = ~aclk;

  // Count an error, and print the first errors.
  task wrong(input [8*40-1:0] text, input [63:0] address);
    begin
      errors = errors + 1;
      if (errors < 20) $display("cycle %0d: %0s at %h", cycles, text, address);
    end
  endtask

  // Return the next random word (xorshift).
  function [31:0] next(input [31:0] word);
    reg [31:0] x;
    begin
      x = word ^ (word << 13);
      x = x ^ (x >> 17);
      next = x ^ (x << 5);
    end
  endfunction

  always @(posedge aclk) begin
    cycles <= cycles + 1;
    seed <= next(seed);
    hold <= STALLS ? seed[15:0] & seed[31:16] : 16'd0;
    if (cycles == LIMIT) begin
      $display("FAIL: the run is not done after %0d cycles", cycles);
      $fatal;
    end
  end
@memories@
  // The host does one access at a time. Signals of the host change at the falling edge. 1 ns later, all
  // signals have the values that the rising edge samples.
  reg took_a, took_d, answered;

  task write_register(input [11:0] offset, input [31:0] value);
    begin
      @(negedge aclk);
      s_axil_awaddr = offset;
      s_axil_wdata = value;
      s_axil_wstrb = 15;
      s_axil_awvalid = 1;
      s_axil_wvalid = 1;
      s_axil_bready = 1;
      answered = 0;
      while (!answered) begin
        #1;
        took_a = s_axil_awvalid && s_axil_awready;
        took_d = s_axil_wvalid && s_axil_wready;
        answered = s_axil_bvalid;
        if (answered && s_axil_bresp != 0) wrong("error response to a register write", offset);
        @(negedge aclk);
        if (took_a) s_axil_awvalid = 0;
        if (took_d) s_axil_wvalid = 0;
      end
      s_axil_bready = 0;
    end
  endtask

  task read_register(input [11:0] offset, output [31:0] value);
    begin
      @(negedge aclk);
      s_axil_araddr = offset;
      s_axil_arvalid = 1;
      s_axil_rready = 1;
      answered = 0;
      while (!answered) begin
        #1;
        took_a = s_axil_arvalid && s_axil_arready;
        answered = s_axil_rvalid;
        value = s_axil_rdata;
        if (answered && s_axil_rresp != 0) wrong("error response to a register read", offset);
        @(negedge aclk);
        if (took_a) s_axil_arvalid = 0;
      end
      s_axil_rready = 0;
    end
  endtask

  reg [31:0] value_read;
  initial begin
    $readmemh({VECTORS, "/memory.hex"}, memory);
    $readmemh({VECTORS, "/expected.hex"}, expected);
    $readmemh({VECTORS, "/writes.hex"}, writes);
    $readmemh({VECTORS, "/reads.hex"}, reads);
    repeat (8) @(negedge aclk);
    aresetn = 1;
    repeat (2) @(negedge aclk);
    for (n = 0; n < WRITES; n = n + 1) write_register(writes[n][43:32], writes[n][31:0]);
    while (!irq) @(negedge aclk);
    for (n = 0; n < READS; n = n + 1) begin
      read_register(reads[n][43:32], value_read);
      if (value_read !== reads[n][31:0]) begin
        $display("register %h is %h, not %h", reads[n][43:32], value_read, reads[n][31:0]);
        errors = errors + 1;
      end
    end
    for (n = 0; n < BEATS; n = n + 1)
      if (memory[n] !== expected[n]) begin
        wrong("beat differs from the expected beat", BASE + n * BYTES);
        if (errors < 20) $display("  the beat is %h, not %h", memory[n], expected[n]);
      end
    if (errors == 0) begin
      $display("PASS: %0d beats after %0d cycles", BEATS, cycles);
      $finish;
    end else begin
      $display("FAIL: %0d errors", errors);
      $fatal;
    end
  end

@instance@
endmodule
