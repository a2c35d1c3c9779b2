// The Verilated machine of the page: its clock, the simulated memory of Diastole behind its port, and a
// sample of every cycle. The memory and the register master are those of `machines/verilator`, so a
// command takes as many cycles as in a simulation on a computer.
#include "axi_memory.hpp"
#include "page_machine.h"
#include "register_master.hpp"
#include "verilated.h"

#include "Vproduct___024root.h"

static const uint32_t RESET_CYCLES = 8, LONGEST = 1000000;
static const uint32_t EVENT_BITS = 14;  // what follows in the events belongs to a converted tensor

namespace {
// The address of every beat, from the requests. `next` is all ones if a beat comes before its request.
struct Beats {
    struct Burst {
        uint32_t at, left;
    };
    Queue<Burst, 64> open;

    void request(uint64_t address, uint32_t beats) {
        open.push() = {uint32_t(address - PAGE_MEMORY_BASE), beats};
    }
    uint32_t next() {
        if (open.empty()) return ~0u;
        Burst& burst = open.front();
        const uint32_t at = burst.at;
        burst.at += DATA_BYTES;
        if (!--burst.left) open.pop();
        return at;
    }
};

struct Machine {
    VerilatedContext context;
    Vproduct top{&context, "product"};
    MemoryArray array;
    AxiMemory<Port0> memory{array};
    RegisterMaster registers;
    Stalls stalls;
    Fault fault;
    Beats reads, writes;
    uint64_t cycle = 0;
    bool recording = false;
    uint32_t count = 0;

    Machine() {
        array.options = {PAGE_MEMORY_BASE, PAGE_MEMORY_BYTES, READ_LATENCY, WRITE_LATENCY, OUTSTANDING, 0};
        array.data = new uint8_t[PAGE_MEMORY_BYTES]();
        array.clear_traffic();
        stalls.seed(false, 0);
    }
};
}  // namespace

static Machine& machine() {
    static Machine* its = new Machine;
    return *its;
}

static sample samples[MOST_SAMPLES];

static void clock(Machine& its) {
    its.memory.drive(its.top, its.stalls, its.cycle);
    its.registers.drive(its.top, its.stalls);
    for (int level = 1; level >= 0; --level) {
        its.top.aclk = level;
        its.top.eval();
    }
}

static void record(Machine& its) {
    const Vproduct& t = its.top;
    sample now = {uint32_t(t.rootp->EVENTS) & ((1u << EVENT_BITS) - 1), 0, ~0u, ~0u};
    if (t.m_axi_arvalid && t.m_axi_arready) its.reads.request(t.m_axi_araddr, t.m_axi_arlen + 1u), now.bus |= 1;
    if (t.m_axi_rvalid && t.m_axi_rready) now.read = its.reads.next(), now.bus |= 2;
    if (t.m_axi_awvalid && t.m_axi_awready) its.writes.request(t.m_axi_awaddr, t.m_axi_awlen + 1u), now.bus |= 4;
    if (t.m_axi_wvalid && t.m_axi_wready) now.written = its.writes.next(), now.bus |= 8;
    now.bus |= (t.m_axi_bvalid && t.m_axi_bready) << 4 | (t.s_axil_rvalid && t.s_axil_rready) << 5;
    now.bus |= (t.s_axil_wvalid && t.s_axil_wready) << 6 | (t.irq & 1) << 7;
    if (its.recording && its.count < MOST_SAMPLES) samples[its.count++] = now;
}

static void cycle(Machine& its) {
    clock(its);
    record(its);
    its.memory.sample(its.top, its.stalls, its.fault, its.cycle);
    its.registers.sample(its.top, its.fault, its.cycle);
    ++its.cycle;
}

static void access(Machine& its) {
    for (uint32_t n = 0; its.registers.busy() && n < LONGEST && !its.fault.raised; ++n) cycle(its);
    if (its.registers.busy() || its.registers.response)
        its.fault.raise(its.cycle, "a register does not answer");
}

extern "C" {

// The library of C++ lacks this function, which would destroy variables at the end of a thread.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

void machine_reset() {
    Machine& its = machine();
    its.memory.reset();
    its.registers.reset();
    its.reads.open.clear();
    its.writes.open.clear();
    its.fault = Fault{};
    its.top.aresetn = 0;
    for (uint32_t n = 0; n < RESET_CYCLES; ++n, ++its.cycle) clock(its);
    its.top.aresetn = 1;
}

uint32_t machine_read(uint32_t offset) {
    Machine& its = machine();
    its.registers.read(offset);
    access(its);
    return its.registers.value;
}

void machine_write(uint32_t offset, uint32_t value) {
    Machine& its = machine();
    its.registers.write(offset, value, 15);
    access(its);
}

int machine_wait() {
    Machine& its = machine();
    for (uint32_t n = 0; n < LONGEST && !its.top.irq && !its.fault.raised; ++n) cycle(its);
    return its.fault.raised || !its.top.irq;
}

uint8_t* machine_memory() { return machine().array.data; }
const char* machine_fault() { return machine().fault.text; }
void machine_record(int on) { machine().recording = on; }
void machine_forget() { machine().count = 0; }

FOR_PAGE(page_samples) const sample* page_samples() { return samples; }
FOR_PAGE(page_sample_count) uint32_t page_sample_count() { return machine().count; }
FOR_PAGE(page_cycle) double page_cycle() { return double(machine().cycle); }

}  // extern "C"
