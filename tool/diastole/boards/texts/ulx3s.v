// ULX3S: the pin's clock of @PIN_MHZ@ MHz to @CLOCK_MHZ@ MHz, a reset until that is steady, and the board.
module ulx3s (
  input clk_25mhz,
  input [0:0] btn,      // PWR, low while it is pressed: resets the machine
  input ftdi_txd,       // from the host
  output ftdi_rxd,      // to the host
  output [7:0] led,
  output wifi_gpio0     // high: the ESP32 leaves the board alone
);
  wire aclk;
  wire locked;
  wire irq;
  reg [3:0] steady = 0;

  (* FREQUENCY_PIN_CLKI="@PIN_MHZ@" *)
  (* FREQUENCY_PIN_CLKOP="@CLOCK_MHZ@" *)
  (* ICP_CURRENT="12" *) (* LPF_RESISTOR="8" *)
  (* MFG_ENABLE_FILTEROPAMP="1" *) (* MFG_GMCREF_SEL="2" *)
  EHXPLLL #(
    .PLLRST_ENA("DISABLED"),
    .INTFB_WAKE("DISABLED"),
    .STDBY_ENABLE("DISABLED"),
    .DPHASE_SOURCE("DISABLED"),
    .OUTDIVIDER_MUXA("DIVA"),
    .OUTDIVIDER_MUXB("DIVB"),
    .OUTDIVIDER_MUXC("DIVC"),
    .OUTDIVIDER_MUXD("DIVD"),
    .CLKI_DIV(@CLKI_DIV@),
    .CLKOP_ENABLE("ENABLED"),
    .CLKOP_DIV(@CLKOP_DIV@),
    .CLKOP_CPHASE(@PHASE@),
    .CLKOP_FPHASE(0),
    .FEEDBK_PATH("CLKOP"),
    .CLKFB_DIV(@CLKFB_DIV@)
  ) pll (
    .RST(1'b0),
    .STDBY(1'b0),
    .CLKI(clk_25mhz),
    .CLKOP(aclk),
    .CLKFB(aclk),
    .CLKINTFB(),
    .PHASESEL0(1'b0),
    .PHASESEL1(1'b0),
    .PHASEDIR(1'b1),
    .PHASESTEP(1'b1),
    .PHASELOADREG(1'b1),
    .PLLWAKESYNC(1'b0),
    .ENCLKOP(1'b0),
    .LOCK(locked)
  );

  always @(posedge aclk)
    if (!locked || !btn[0]) steady <= 0;
    else if (!(&steady)) steady <= steady + 1;

  @BOARD@ board (
    .aclk(aclk),
    .aresetn(&steady),
    .rx(ftdi_txd),
    .tx(ftdi_rxd),
    .irq(irq)
  );

  assign led = {irq, locked, 4'b0, !ftdi_txd, !ftdi_rxd};
  assign wifi_gpio0 = 1'b1;
endmodule
