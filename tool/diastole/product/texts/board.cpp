// Board for host.c without hardware: the machine in Verilator, connected to a memory. `make` in this folder
// builds host.c with this board, and runs the program.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "Vmachine.h"
#include "machine_driver.h"
#include "verilated.h"

static const uint64_t BASE = 0x4000000000, SIZE = 1 << 26;
static const unsigned LONGEST = 10000000;  // most cycles that a wait for the interrupt takes

static VerilatedContext context;
static Vmachine top{&context};
static std::vector<uint8_t> memory(SIZE, 0xa5);

// Return the place of a beat in the memory. An address outside the memory ends the program.
static uint8_t *place(uint64_t address)
{
    if (address >= BASE && address + MACHINE_BEAT_BYTES <= BASE + SIZE)
        return &memory[address - BASE];
    fprintf(stderr, "the machine accesses address %llx, outside the memory\n", (unsigned long long)address);
    exit(1);
}
@memories@
// Handshakes on the register bus in the last cycle, and the data and the response of the bus.
static bool took_ar, took_r, took_aw, took_w, took_b;
static uint32_t bus_data, bus_response;

// Simulate one clock cycle. Handshakes are sampled just before the rising edge of the clock.
static void cycle()
{
    top.aclk = 0;
    top.eval();
    took_ar = top.s_axil_arvalid && top.s_axil_arready;
    took_r = top.s_axil_rvalid && top.s_axil_rready;
    took_aw = top.s_axil_awvalid && top.s_axil_awready;
    took_w = top.s_axil_wvalid && top.s_axil_wready;
    took_b = top.s_axil_bvalid && top.s_axil_bready;
    bus_data = top.s_axil_rdata;
    bus_response = took_r ? top.s_axil_rresp : top.s_axil_bresp;
@sample@
    top.aclk = 1;
    top.eval();
    if (took_ar) top.s_axil_arvalid = 0;
    if (took_aw) top.s_axil_awvalid = 0;
    if (took_w) top.s_axil_wvalid = 0;
@drive@
}

static uint32_t read_register(void *, uint32_t offset)
{
    top.s_axil_araddr = offset;
    top.s_axil_arvalid = top.s_axil_rready = 1;
    do cycle();
    while (!took_r);
    top.s_axil_rready = 0;
    if (bus_response) fprintf(stderr, "the bus answered the read of register %x with an error\n", offset);
    return bus_data;
}

static void write_register(void *, uint32_t offset, uint32_t value)
{
    top.s_axil_awaddr = offset;
    top.s_axil_wdata = value;
    top.s_axil_wstrb = 15;
    top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_bready = 1;
    do cycle();
    while (!took_b);
    top.s_axil_bready = 0;
    if (bus_response) fprintf(stderr, "the bus answered the write of register %x with an error\n", offset);
}

// Wait until the interrupt is high. Return 1 after LONGEST cycles without an interrupt.
static int wait_irq(void *)
{
    for (unsigned n = 0; n < LONGEST && !top.irq; ++n) cycle();
    return !top.irq;
}

int machine_board(machine_port *port, uint8_t **bytes, uint64_t *address, uint64_t *size)
{
    top.aresetn = 0;
    for (int n = 0; n < 8; ++n) cycle();
    top.aresetn = 1;
    cycle();
    *bytes = memory.data();
    *address = BASE;
    *size = SIZE;
    port->context = nullptr;
    port->read = read_register;
    port->write = write_register;
    port->wait_irq = wait_irq;
    return 0;
}
