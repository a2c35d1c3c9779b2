// The product's memory: an AXI4 slave behind each port, m_axi_* and, where there are two, m_axi1_*,
// and a checker of what the product does there. One read beat and one write beat per cycle and port;
// the first beat of a burst comes `read_latency` cycles after its address, a write's response
// `write_latency` cycles after its last beat. A write takes effect when its response is given and not before, so a product that reads
// back what it wrote without waiting for the response gets the old data.
#pragma once

#include "common.hpp"

enum Response { OKAY = 0, SLVERR = 2, DECERR = 3 };

// Options of the memory; mirrored by ctypes in machine.py.
struct MemoryOptions {
    uint64_t base;           // first address
    uint64_t bytes;          // size; addresses outside answer DECERR
    uint32_t read_latency;   // cycles, at least 1
    uint32_t write_latency;  // cycles, at least 1
    uint32_t outstanding;    // bursts accepted ahead in each direction, 1 to 64
    uint32_t write_pause;    // cycles: data is taken in every other such stretch; 0: always
};

// What happened on the bus since the last clear; mirrored by ctypes in machine.py.
struct Traffic {
    uint64_t read_bursts;
    uint64_t read_beats;
    uint64_t write_bursts;
    uint64_t write_beats;
    uint64_t first_written;  // lowest address written; all ones if nothing was
    uint64_t end_written;    // one past the highest address written
    uint64_t strays;         // writes that left the allowed ranges, in beats
    uint64_t first_stray;    // address of the first of them
};

// One pin of a product's port; and a port: how to reach its pins, and what its channels are called.
#define AXI_PIN(PREFIX, PIN) \
    template <typename Top> static auto& PIN(Top& top) { return top.PREFIX##_##PIN; }
#define AXI_PORT(NAME, PREFIX) \
    struct NAME { \
        static constexpr const char* ALL = #PREFIX; \
        static constexpr const char* AR_NAME = #PREFIX "_ar"; \
        static constexpr const char* AW_NAME = #PREFIX "_aw"; \
        static constexpr const char* W_NAME = #PREFIX "_w"; \
        AXI_PIN(PREFIX, arvalid) \
        AXI_PIN(PREFIX, arready) \
        AXI_PIN(PREFIX, araddr) \
        AXI_PIN(PREFIX, arlen) \
        AXI_PIN(PREFIX, arsize) \
        AXI_PIN(PREFIX, arburst) \
        AXI_PIN(PREFIX, arcache) \
        AXI_PIN(PREFIX, arprot) \
        AXI_PIN(PREFIX, rvalid) \
        AXI_PIN(PREFIX, rready) \
        AXI_PIN(PREFIX, rdata) \
        AXI_PIN(PREFIX, rresp) \
        AXI_PIN(PREFIX, rlast) \
        AXI_PIN(PREFIX, awvalid) \
        AXI_PIN(PREFIX, awready) \
        AXI_PIN(PREFIX, awaddr) \
        AXI_PIN(PREFIX, awlen) \
        AXI_PIN(PREFIX, awsize) \
        AXI_PIN(PREFIX, awburst) \
        AXI_PIN(PREFIX, awcache) \
        AXI_PIN(PREFIX, awprot) \
        AXI_PIN(PREFIX, wvalid) \
        AXI_PIN(PREFIX, wready) \
        AXI_PIN(PREFIX, wdata) \
        AXI_PIN(PREFIX, wstrb) \
        AXI_PIN(PREFIX, wlast) \
        AXI_PIN(PREFIX, bvalid) \
        AXI_PIN(PREFIX, bready) \
        AXI_PIN(PREFIX, bresp) \
    };
AXI_PORT(Port0, m_axi)
AXI_PORT(Port1, m_axi1)

// What all ports share: the bytes, what may be done to them, and what was.
struct MemoryArray {
    MemoryOptions options{};
    uint8_t* data = nullptr;
    Ranges allowed;  // writes may go here; empty: anywhere
    Ranges bad_reads;
    Ranges bad_writes;
    Traffic traffic{};
    uint64_t handshakes = 0;

    void clear_traffic() {
        traffic = Traffic{};
        traffic.first_written = traffic.first_stray = ~0ull;
    }
};

template <typename Pins>
class AxiMemory {
    static constexpr uint32_t BURSTS = 64;
    static constexpr uint32_t BEATS = 1024;

    struct Burst {
        uint64_t address;
        uint32_t beats;
        uint32_t done;
        uint64_t due;  // cycle of the first data beat, or of the response
        uint8_t response;
    };
    struct Beat {
        uint8_t data[DATA_BYTES];
        uint64_t strobes;
        bool last;
    };
    struct Address {  // a sampled address channel, to see whether it stays as it is until accepted
        bool waiting = false;
        uint64_t address = 0;
        uint32_t shape = 0;
    };

    Queue<Burst, BURSTS> m_reads;
    Queue<Burst, BURSTS> m_writes;     // addresses whose data is not complete
    Queue<Burst, BURSTS> m_responses;  // complete writes
    Queue<Beat, BEATS> m_beats;        // data of incomplete and of complete, uncommitted writes
    uint32_t m_committable = 0;        // beats that belong to m_responses
    bool m_r_held = false;             // rvalid is up and not yet accepted
    bool m_b_held = false;
    Address m_ar;
    Address m_aw;
    bool m_w_waiting = false;
    Beat m_w;
    MemoryArray& m_array;

public:
    explicit AxiMemory(MemoryArray& array) : m_array(array) {}

    void reset() {
        m_reads.clear();
        m_writes.clear();
        m_responses.clear();
        m_beats.clear();
        m_committable = 0;
        m_r_held = m_b_held = m_w_waiting = false;
        m_ar.waiting = m_aw.waiting = false;
    }

    uint32_t open_reads() const { return m_reads.size(); }
    uint32_t open_writes() const { return m_writes.size() + m_responses.size(); }

    // Set the product's inputs for the coming cycle, from what was sampled up to the last one.
    void drive(Vproduct& top, Stalls& stalls, uint64_t cycle) {
        Pins::arready(top) = m_reads.size() < m_array.options.outstanding && !stalls.hold(AR);
        bool give = m_r_held;
        if (!give && !m_reads.empty() && m_reads.front().due <= cycle) give = !stalls.hold(R);
        if (give && !m_r_held) present(top, m_reads.front());
        Pins::rvalid(top) = m_r_held = give;
        if (!give && stalls.on()) nonsense(top);

        bool room = open_writes() < m_array.options.outstanding;
        bool data_seen = m_beats.size() > m_committable || m_w_waiting;
        if (stalls.pairing == Stalls::ADDRESS_WAITS_FOR_DATA) room = room && data_seen;
        Pins::awready(top) = room && !stalls.hold(AW);
        bool take = m_beats.size() < BEATS;
        if (m_array.options.write_pause) take = take && (cycle / m_array.options.write_pause & 1);
        if (stalls.pairing == Stalls::DATA_WAITS_FOR_ADDRESS) take = take && !m_writes.empty();
        Pins::wready(top) = take && !stalls.hold(W);

        give = m_b_held;
        if (!give && !m_responses.empty() && m_responses.front().due <= cycle)
            give = !stalls.hold(B);
        if (give && !m_b_held) {
            Pins::bresp(top) = m_responses.front().response;
            commit(m_responses.front());
        }
        Pins::bvalid(top) = m_b_held = give;
        if (!give && stalls.on()) Pins::bresp(top) = SLVERR;
    }

    // Look at the settled cycle, just before the clock edge that ends it.
    void sample(const Vproduct& top, Stalls& stalls, Fault& fault, uint64_t cycle) {
        if (Pins::arvalid(top) || m_ar.waiting) sample_ar(top, stalls, fault, cycle);
        if (Pins::awvalid(top) || m_aw.waiting) sample_aw(top, fault, cycle);
        if (Pins::wvalid(top) || m_w_waiting) sample_w(top, fault, cycle);
        if (m_r_held && Pins::rready(top)) {
            m_r_held = false;
            ++m_array.handshakes;
            ++m_array.traffic.read_beats;
            Burst& burst = m_reads.front();
            if (++burst.done == burst.beats) m_reads.pop();
        }
        if (m_b_held && Pins::bready(top)) {
            m_b_held = false;
            ++m_array.handshakes;
            m_responses.pop();
        }
        complete(stalls, fault, cycle);
    }

    // With the reset held for some cycles, a product must not ask for anything (AXI A3.1.2).
    void check_reset(const Vproduct& top, Fault& fault, uint64_t cycle) const {
        if (Pins::arvalid(top) || Pins::awvalid(top) || Pins::wvalid(top))
            fault.raise(cycle, "%s: a valid signal is high in reset", Pins::ALL);
    }

private:
    bool inside(uint64_t address) const {
        const MemoryOptions& options = m_array.options;
        return address >= options.base && address - options.base + DATA_BYTES <= options.bytes;
    }

    void present(Vproduct& top, const Burst& burst) {
        uint64_t address = burst.address + uint64_t(burst.done) * DATA_BYTES;
        bool known = inside(address);
        if (known)
            memcpy(&Pins::rdata(top), m_array.data + (address - m_array.options.base), DATA_BYTES);
        else
            memset(&Pins::rdata(top), 0, DATA_BYTES);
        bool bad = m_array.bad_reads.touch(address, address + DATA_BYTES);
        Pins::rresp(top) = !known ? DECERR : bad ? SLVERR : OKAY;
        Pins::rlast(top) = burst.done + 1 == burst.beats;
    }

    // What nobody may look at, since nothing is valid.
    static void nonsense(Vproduct& top) {
        memset(&Pins::rdata(top), 0x5a, DATA_BYTES);
        Pins::rresp(top) = SLVERR;
        Pins::rlast(top) = 1;
    }

    static void check_address(Fault& fault, uint64_t cycle, const char* channel, uint64_t address,
                              uint32_t beats, uint32_t size, uint32_t burst) {
        auto at = static_cast<unsigned long long>(address);
        if (burst != 1) fault.raise(cycle, "%s: burst type %u at %#llx, not INCR", channel, burst, at);
        if ((1u << size) != DATA_BYTES)
            fault.raise(cycle, "%s: %u bytes a beat at %#llx", channel, 1u << size, at);
        if (address % DATA_BYTES) fault.raise(cycle, "%s: misaligned address %#llx", channel, at);
        if ((address & 4095) + uint64_t(beats) * DATA_BYTES > 4096)
            fault.raise(cycle, "%s: %u beats at %#llx cross 4 KiB", channel, beats, at);
    }

    static void check_stable(Fault& fault, uint64_t cycle, const char* channel, Address& seen,
                             bool valid, uint64_t address, uint32_t shape) {
        if (!seen.waiting) return;
        if (!valid) fault.raise(cycle, "%s: valid fell before ready", channel);
        if (valid && (address != seen.address || shape != seen.shape))
            fault.raise(cycle, "%s: payload changed before ready", channel);
    }

    void sample_ar(const Vproduct& top, Stalls& stalls, Fault& fault, uint64_t cycle) {
        uint64_t address = Pins::araddr(top);
        uint32_t shape = Pins::arlen(top) | Pins::arsize(top) << 8 | Pins::arburst(top) << 12 |
                         Pins::arcache(top) << 16 | Pins::arprot(top) << 20;
        check_stable(fault, cycle, Pins::AR_NAME, m_ar, Pins::arvalid(top), address, shape);
        m_ar = {Pins::arvalid(top) && !Pins::arready(top), address, shape};
        if (!Pins::arvalid(top) || !Pins::arready(top)) return;
        uint32_t beats = Pins::arlen(top) + 1u;
        check_address(fault, cycle, Pins::AR_NAME, address, beats, Pins::arsize(top),
                      Pins::arburst(top));
        uint64_t due = cycle + m_array.options.read_latency + stalls.extra();
        m_reads.push() = {address, beats, 0, due, OKAY};
        ++m_array.traffic.read_bursts;
        ++m_array.handshakes;
    }

    void sample_aw(const Vproduct& top, Fault& fault, uint64_t cycle) {
        uint64_t address = Pins::awaddr(top);
        uint32_t shape = Pins::awlen(top) | Pins::awsize(top) << 8 | Pins::awburst(top) << 12 |
                         Pins::awcache(top) << 16 | Pins::awprot(top) << 20;
        check_stable(fault, cycle, Pins::AW_NAME, m_aw, Pins::awvalid(top), address, shape);
        m_aw = {Pins::awvalid(top) && !Pins::awready(top), address, shape};
        if (!Pins::awvalid(top) || !Pins::awready(top)) return;
        uint32_t beats = Pins::awlen(top) + 1u;
        check_address(fault, cycle, Pins::AW_NAME, address, beats, Pins::awsize(top),
                      Pins::awburst(top));
        m_writes.push() = {address, beats, 0, 0, OKAY};
        ++m_array.traffic.write_bursts;
        ++m_array.handshakes;
    }

    void sample_w(const Vproduct& top, Fault& fault, uint64_t cycle) {
        Beat beat;
        memcpy(beat.data, &Pins::wdata(top), DATA_BYTES);
        beat.strobes = uint64_t(Pins::wstrb(top));
        beat.last = Pins::wlast(top);
        if (m_w_waiting) {
            if (!Pins::wvalid(top))
                fault.raise(cycle, "%s: valid fell before ready", Pins::W_NAME);
            else if (beat.strobes != m_w.strobes || beat.last != m_w.last ||
                     memcmp(beat.data, m_w.data, DATA_BYTES) != 0)
                fault.raise(cycle, "%s: payload changed before ready", Pins::W_NAME);
        }
        m_w_waiting = Pins::wvalid(top) && !Pins::wready(top);
        m_w = beat;
        if (!Pins::wvalid(top) || !Pins::wready(top)) return;
        m_beats.push() = beat;
        ++m_array.traffic.write_beats;
        ++m_array.handshakes;
    }

    // Give the newest data beats to the oldest address that lacks data.
    void complete(Stalls& stalls, Fault& fault, uint64_t cycle) {
        while (!m_writes.empty() && m_beats.size() > m_committable) {
            Burst& burst = m_writes.front();
            ++burst.done;
            bool last = m_beats.at(m_committable++).last;
            if (last != (burst.done == burst.beats))
                fault.raise(cycle, "%s: wlast is %d at beat %u of %u", Pins::W_NAME, last,
                            burst.done, burst.beats);
            if (burst.done < burst.beats) continue;
            burst.due = cycle + m_array.options.write_latency + stalls.extra();
            burst.response = judge(burst);
            m_responses.push() = burst;
            m_writes.pop();
        }
    }

    uint8_t judge(const Burst& burst) const {
        uint64_t end = burst.address + uint64_t(burst.beats) * DATA_BYTES;
        if (!inside(burst.address) || !inside(end - DATA_BYTES)) return DECERR;
        return m_array.bad_writes.touch(burst.address, end) ? SLVERR : OKAY;
    }

    void commit(const Burst& burst) {
        for (uint32_t n = 0; n < burst.beats; ++n) {
            const Beat& beat = m_beats.at(n);
            if (beat.strobes) store(burst.address + uint64_t(n) * DATA_BYTES, beat, burst.response);
        }
        m_beats.pop(burst.beats);
        m_committable -= burst.beats;
    }

    void store(uint64_t address, const Beat& beat, uint8_t response) {
        uint64_t first = address + __builtin_ctzll(beat.strobes);
        uint64_t end = address + 64 - __builtin_clzll(beat.strobes);
        if (first < m_array.traffic.first_written) m_array.traffic.first_written = first;
        if (end > m_array.traffic.end_written) m_array.traffic.end_written = end;
        if (m_array.allowed.count && !m_array.allowed.contain(first, end)) {
            if (!m_array.traffic.strays++) m_array.traffic.first_stray = first;
        }
        if (response != OKAY) return;
        uint8_t* to = m_array.data + (address - m_array.options.base);
        if (end - first == DATA_BYTES && ~beat.strobes << (64 - DATA_BYTES) == 0) {
            memcpy(to, beat.data, DATA_BYTES);
            return;
        }
        for (unsigned byte = 0; byte < DATA_BYTES; ++byte)
            if (beat.strobes >> byte & 1) to[byte] = beat.data[byte];
    }
};
