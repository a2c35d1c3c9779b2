// A board for host.c that is the machine in Verilator, with a memory behind it: `make` in this folder
// builds both and runs them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "Vmachine.h"
#include "machine_driver.h"
#include "verilated.h"

static const uint64_t BASE = 0x4000000000, SIZE = 1 << 20;
static const unsigned LONGEST = 10000000;  // cycles of a wait

static VerilatedContext context;
static Vmachine top{&context};
static std::vector<uint8_t> memory(SIZE, 0xa5);

static uint8_t *place(uint64_t address)
{
    if (address >= BASE && address + MACHINE_BEAT_BYTES <= BASE + SIZE)
        return &memory[address - BASE];
    fprintf(stderr, "no memory at %llx\n", (unsigned long long)address);
    exit(1);
}
@memories@
// What was accepted in the last cycle on the bus of registers.
static bool took_ar, took_r, took_aw, took_w, took_b;
static uint32_t taken_data, taken_response;

static void cycle()
{
    top.aclk = 0;
    top.eval();
    took_ar = top.s_axil_arvalid && top.s_axil_arready;
    took_r = top.s_axil_rvalid && top.s_axil_rready;
    took_aw = top.s_axil_awvalid && top.s_axil_awready;
    took_w = top.s_axil_wvalid && top.s_axil_wready;
    took_b = top.s_axil_bvalid && top.s_axil_bready;
    taken_data = top.s_axil_rdata;
    taken_response = took_r ? top.s_axil_rresp : top.s_axil_bresp;
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
    if (taken_response) fprintf(stderr, "register %x was not read\n", offset);
    return taken_data;
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
    if (taken_response) fprintf(stderr, "register %x was not written\n", offset);
}

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
