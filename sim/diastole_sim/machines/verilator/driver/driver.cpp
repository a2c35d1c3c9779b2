// A generated product in Verilator with its clock, its memory and its host, as a C library that
// machine.py loads with ctypes. One machine is used by one thread at a time; machines are
// independent of each other.
#include <sys/mman.h>

#include <memory>

#include "axi_memory.hpp"
#include "common.hpp"
#include "register_master.hpp"
#include "verilated.h"
#if defined(TRACE_FST)
#include "verilated_fst_c.h"
using Waves = VerilatedFstC;
#define TRACE
#elif defined(TRACE_VCD)
#include "verilated_vcd_c.h"
using Waves = VerilatedVcdC;
#define TRACE
#endif

// In waves, what the generated top is called: inside of the harness.
const char* const PRODUCT_SCOPE = "product.Harness.product";

// Outcome of everything that runs the clock; mirrored in machine.py.
enum Outcome { DONE = 0, RUNNING = 1, HANG = 2, FAULT = 3 };

// Mirrored by ctypes in machine.py.
struct Options {
    MemoryOptions memory;
    uint64_t watchdog_cycles;  // without any handshake on any channel: a hang
    uint64_t stall_seed;
    uint32_t stalls;         // 1: delay every handshake
    uint32_t random_powerup; // 1: registers and memories without initial value start at random
};

// Pins and counters for a report; mirrored by ctypes in machine.py.
struct State {
    uint64_t cycle;
    uint64_t idle_cycles;  // since the last handshake
    uint64_t handshakes;
    uint32_t irq;
    uint32_t valid;  // one bit per channel: enum Channel, then AR to B of a second port to memory
    uint32_t ready;
    uint32_t open_reads;
    uint32_t open_writes;
    uint32_t reserved;
};

class Machine {
    static constexpr uint32_t RESET_CYCLES = 8;
    static constexpr uint64_t SECOND_SEED = 0x632be59bd9b4e019ull;  // added to the first port's

    Options m_options;
    VerilatedContext m_context;
    std::unique_ptr<Vproduct> m_top;
    MemoryArray m_array;
    AxiMemory<Port0> m_memory{m_array};
#if AXI_PORTS > 1
    AxiMemory<Port1> m_memory1{m_array};
    Stalls m_stalls1;
#endif
    RegisterMaster m_registers;
    Stalls m_stalls;
    uint64_t m_cycle = 0;
    uint64_t m_seen_handshakes = 0;
    uint64_t m_progress = 0;  // cycle of the last handshake
#ifdef TRACE
    std::unique_ptr<Waves> m_trace;
#endif

public:
    Fault fault;

    explicit Machine(const Options& options) : m_options{options} {
        m_context.randReset(options.random_powerup ? 2 : 0);
        m_context.randSeed(static_cast<int>(options.stall_seed % 0x7ffffffe) + 1);
#ifdef TRACE
        m_context.traceEverOn(true);
#endif
        m_top.reset(new Vproduct{&m_context, "product"});
        m_array.options = options.memory;
        m_array.clear_traffic();
        m_stalls.seed(options.stalls, options.stall_seed);
#if AXI_PORTS > 1
        m_stalls1.seed(options.stalls, options.stall_seed + SECOND_SEED);
#endif
        // Pages that nobody touches cost nothing, so the memory may be larger than the host's.
        void* pages = mmap(nullptr, options.memory.bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        m_array.data = pages == MAP_FAILED ? nullptr : static_cast<uint8_t*>(pages);
    }

    ~Machine() {
        close_trace();
        m_top->final();
        if (m_array.data) munmap(m_array.data, m_array.options.bytes);
    }

    MemoryArray& memory() { return m_array; }

    // Hold aresetn low for a few cycles; memory keeps its contents, open transfers are forgotten.
    void reset() {
        m_memory.reset();
#if AXI_PORTS > 1
        m_memory1.reset();
#endif
        m_registers.reset();
        fault = Fault{};
        for (uint32_t n = 0; n < RESET_CYCLES; ++n) {
            m_top->aresetn = 0;
            begin_cycle();
            if (n > 1) m_memory.check_reset(*m_top, fault, m_cycle);
#if AXI_PORTS > 1
            if (n > 1) m_memory1.check_reset(*m_top, fault, m_cycle);
#endif
            ++m_cycle;
        }
        m_top->aresetn = 1;
        m_progress = m_cycle;
    }

    int read(uint32_t address, uint32_t* value, uint32_t* response) {
        m_registers.read(address);
        int outcome = access();
        *value = m_registers.value;
        *response = m_registers.response;
        return outcome;
    }

    int write(uint32_t address, uint32_t value, uint32_t* response) {
        m_registers.write(address, value, 15);
        int outcome = access();
        *response = m_registers.response;
        return outcome;
    }

    // Run until the interrupt, at most `cycles` cycles.
    int run(uint64_t cycles) {
        m_progress = m_cycle;
        return clock(cycles, [this] { return m_top->irq != 0; });
    }

    // Run a number of cycles, whatever the interrupt does.
    int idle(uint64_t cycles) {
        m_progress = m_cycle + cycles;  // silence is no hang here
        return clock(cycles, [] { return false; });
    }

    State state() const {
        const Vproduct& t = *m_top;
#if AXI_PORTS > 1
#define SECOND(PIN) , t.m_axi1_ar##PIN, t.m_axi1_r##PIN, t.m_axi1_aw##PIN, t.m_axi1_w##PIN, t.m_axi1_b##PIN
#else
#define SECOND(PIN)
#endif
        const int valid[] = {t.m_axi_arvalid,  t.m_axi_rvalid,  t.m_axi_awvalid,  t.m_axi_wvalid,
                             t.m_axi_bvalid,   t.s_axil_arvalid, t.s_axil_rvalid, t.s_axil_awvalid,
                             t.s_axil_wvalid, t.s_axil_bvalid SECOND(valid)};
        const int ready[] = {t.m_axi_arready,  t.m_axi_rready,  t.m_axi_awready,  t.m_axi_wready,
                             t.m_axi_bready,   t.s_axil_arready, t.s_axil_rready, t.s_axil_awready,
                             t.s_axil_wready, t.s_axil_bready SECOND(ready)};
        constexpr int channels = sizeof valid / sizeof *valid;
#undef SECOND
        State state{};
        state.cycle = m_cycle;
        state.idle_cycles = m_cycle > m_progress ? m_cycle - m_progress : 0;
        state.handshakes = m_array.handshakes + m_registers.handshakes;
        state.irq = t.irq;
        for (int channel = 0; channel < channels; ++channel) {
            state.valid |= uint32_t(valid[channel] != 0) << channel;
            state.ready |= uint32_t(ready[channel] != 0) << channel;
        }
        state.open_reads = m_memory.open_reads();
        state.open_writes = m_memory.open_writes();
#if AXI_PORTS > 1
        state.open_reads += m_memory1.open_reads();
        state.open_writes += m_memory1.open_writes();
#endif
        return state;
    }

    // Waves of `depth` levels of the product's modules, 0: of all.
    bool open_trace(const char* path, int depth) {
#ifdef TRACE
        m_trace.reset(new Waves);
        m_top->trace(m_trace.get(), 99);
        if (depth) m_trace->dumpvars(depth, PRODUCT_SCOPE);
        m_trace->open(path);
        return m_trace->isOpen();
#else
        (void)path;
        (void)depth;
        return false;
#endif
    }

    void close_trace() {
#ifdef TRACE
        if (m_trace) m_trace->close();
        m_trace.reset();
#endif
    }

private:
    void edge(int level) {
        m_top->aclk = level;
        m_top->eval();
#ifdef TRACE
        // A clock of 100 MHz; time in units of the 1 ns that the build sets.
        if (m_trace) m_trace->dump(m_cycle * 10 + (level ? 0 : 5));
#endif
    }

    // The harness takes the inputs at the rising edge, with the product's own registers; so one
    // evaluation settles the whole cycle, and the falling edge is next to nothing.
    void begin_cycle() {
        m_stalls.tick();
        m_memory.drive(*m_top, m_stalls, m_cycle);
#if AXI_PORTS > 1
        m_stalls1.tick();
        m_memory1.drive(*m_top, m_stalls1, m_cycle);
#endif
        m_registers.drive(*m_top, m_stalls);
        edge(1);
        edge(0);
    }

    void cycle() {
        begin_cycle();
        m_memory.sample(*m_top, m_stalls, fault, m_cycle);
#if AXI_PORTS > 1
        m_memory1.sample(*m_top, m_stalls1, fault, m_cycle);
#endif
        m_registers.sample(*m_top, fault, m_cycle);
        ++m_cycle;
    }

    template <typename Condition>
    int clock(uint64_t cycles, Condition condition) {
        for (uint64_t n = 0; n < cycles; ++n) {
            if (condition()) return DONE;
            cycle();
            if (fault.raised) return FAULT;
            uint64_t handshakes = m_array.handshakes + m_registers.handshakes;
            if (handshakes != m_seen_handshakes) {
                m_seen_handshakes = handshakes;
                if (m_progress < m_cycle) m_progress = m_cycle;
            } else if (m_cycle > m_progress && m_cycle - m_progress > m_options.watchdog_cycles) {
                return HANG;
            }
        }
        return condition() ? DONE : RUNNING;
    }

    int access() {
        m_progress = m_cycle;
        int outcome = clock(~0ull, [this] { return !m_registers.busy(); });
        if (outcome == HANG) m_registers.reset();
        return outcome;
    }
};

#pragma GCC visibility push(default)
extern "C" {

Machine* machine_new(const Options* options) {
    Machine* machine = new Machine{*options};
    if (machine->memory().data) return machine;
    delete machine;
    return nullptr;
}
void machine_delete(Machine* machine) { delete machine; }
void machine_reset(Machine* machine) { machine->reset(); }
uint8_t* machine_memory(Machine* machine) { return machine->memory().data; }
int machine_read(Machine* machine, uint32_t address, uint32_t* value, uint32_t* response) {
    return machine->read(address, value, response);
}
int machine_write(Machine* machine, uint32_t address, uint32_t value, uint32_t* response) {
    return machine->write(address, value, response);
}
int machine_run(Machine* machine, uint64_t cycles) { return machine->run(cycles); }
int machine_idle(Machine* machine, uint64_t cycles) { return machine->idle(cycles); }
void machine_state(const Machine* machine, State* state) { *state = machine->state(); }
const char* machine_fault(const Machine* machine) { return machine->fault.text; }
void machine_traffic(Machine* machine, Traffic* traffic, int clear) {
    *traffic = machine->memory().traffic;
    if (clear) machine->memory().clear_traffic();
}

// kind 0: writes are allowed here (none given: everywhere); 1, 2: reads, writes answer SLVERR here.
int machine_ranges(Machine* machine, int kind, const Range* range, uint32_t count) {
    if (count > Ranges::MAX || kind < 0 || kind > 2) return 0;
    MemoryArray& memory = machine->memory();
    Ranges& ranges = kind == 0 ? memory.allowed : kind == 1 ? memory.bad_reads : memory.bad_writes;
    ranges.count = count;
    for (uint32_t i = 0; i < count; ++i) ranges.range[i] = range[i];
    return 1;
}
int machine_open_trace(Machine* machine, const char* path, int depth) {
    return machine->open_trace(path, depth);
}
void machine_close_trace(Machine* machine) { machine->close_trace(); }

}  // extern "C"
#pragma GCC visibility pop
