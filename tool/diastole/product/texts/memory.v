
  // Memory at the port PORT, with a queue of up to four read bursts, and one write burst at a time.
  reg [39:0] PORT_at [0:3];
  reg [7:0] PORT_beats [0:3];
  reg [2:0] PORT_in = 0, PORT_out = 0;
  reg [39:0] PORT_read_at = 0, PORT_write_at = 0;
  reg [8:0] PORT_left = 0;
  reg PORT_writing = 0, PORT_answer = 0;
  wire [2:0] PORT_waiting = PORT_in - PORT_out;
  wire [39:0] PORT_read_beat = (PORT_read_at - BASE) >> SIZE;
  wire [39:0] PORT_write_beat = (PORT_write_at - BASE) >> SIZE;
  reg [8*BYTES-1:0] PORT_merged;
  integer PORT_byte;

  task PORT_check(input [39:0] address, input [7:0] beats, input [2:0] size, input [1:0] burst);
    begin
      if (size != SIZE || burst != 1 || address % BYTES != 0)
        wrong("burst with bad size, type or alignment", address);
      if (address[11:0] + (beats + 1) * BYTES > 4096) wrong("burst crosses a multiple of 4 KiB", address);
      if (address < BASE || address + (beats + 1) * BYTES > BASE + BEATS * BYTES)
        wrong("burst outside the memory", address);
    end
  endtask

  always @(posedge aclk) begin
    PORT_arready <= aresetn && !hold[@bit0@] && PORT_waiting < 3;
    if (PORT_arvalid && PORT_arready) begin
      PORT_check(PORT_araddr, PORT_arlen, PORT_arsize, PORT_arburst);
      PORT_at[PORT_in[1:0]] <= PORT_araddr;
      PORT_beats[PORT_in[1:0]] <= PORT_arlen;
      PORT_in <= PORT_in + 1;
    end
    if (!PORT_rvalid || PORT_rready) begin
      PORT_rvalid <= 0;
      if (PORT_left == 0 && PORT_waiting != 0) begin
        PORT_read_at <= PORT_at[PORT_out[1:0]];
        PORT_left <= PORT_beats[PORT_out[1:0]] + 1;
        PORT_out <= PORT_out + 1;
      end else if (PORT_left != 0 && !hold[@bit1@]) begin
        PORT_rvalid <= 1;
        PORT_rdata <= memory[PORT_read_beat];
        PORT_rlast <= PORT_left == 1;
        PORT_read_at <= PORT_read_at + BYTES;
        PORT_left <= PORT_left - 1;
      end
    end

    PORT_awready <= aresetn && !hold[@bit2@] && !PORT_awready && !PORT_writing && !PORT_answer;
    if (PORT_awvalid && PORT_awready) begin
      PORT_check(PORT_awaddr, PORT_awlen, PORT_awsize, PORT_awburst);
      PORT_write_at <= PORT_awaddr;
      PORT_writing <= 1;
    end
    PORT_wready <= !hold[@bit3@] && PORT_writing && !(PORT_wvalid && PORT_wready && PORT_wlast);
    if (PORT_wvalid && PORT_wready) begin
      PORT_merged = memory[PORT_write_beat];
      for (PORT_byte = 0; PORT_byte < BYTES; PORT_byte = PORT_byte + 1)
        if (PORT_wstrb[PORT_byte]) PORT_merged[8*PORT_byte +: 8] = PORT_wdata[8*PORT_byte +: 8];
      memory[PORT_write_beat] <= PORT_merged;
      PORT_write_at <= PORT_write_at + BYTES;
      if (PORT_wlast) begin
        PORT_writing <= 0;
        PORT_answer <= 1;
      end
    end
    if (PORT_bvalid && PORT_bready) PORT_bvalid <= 0;
    else if (PORT_answer && !PORT_bvalid && !hold[@bit4@]) begin
      PORT_bvalid <= 1;
      PORT_answer <= 0;
    end
  end
