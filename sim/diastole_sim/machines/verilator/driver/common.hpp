// What every part of the driver needs: the error that ends a run, queues, and the source of stalls.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "Vproduct.h"

// Width of the product's memory bus in bytes; the build passes it from the manifest.
#ifndef DATA_BYTES
#error "compile with -DDATA_BYTES=<bytes of one beat>"
#endif

// Ports to memory; likewise.
#ifndef AXI_PORTS
#error "compile with -DAXI_PORTS=<1 or 2>"
#endif

// A half-open range of byte addresses. Mirrored by ctypes in machine.py.
struct Range {
    uint64_t first;
    uint64_t end;
};

struct Ranges {
    static constexpr unsigned MAX = 32;
    uint32_t count = 0;
    Range range[MAX];

    bool contain(uint64_t first, uint64_t end) const {
        for (uint32_t i = 0; i < count; ++i)
            if (first >= range[i].first && end <= range[i].end) return true;
        return false;
    }
    bool touch(uint64_t first, uint64_t end) const {
        for (uint32_t i = 0; i < count; ++i)
            if (first < range[i].end && end > range[i].first) return true;
        return false;
    }
};

// The first thing the product did that it must not; later ones only follow from it.
struct Fault {
    bool raised = false;
    char text[256] = "";

    __attribute__((format(printf, 3, 4))) void raise(uint64_t cycle, const char* format, ...) {
        if (raised) return;
        raised = true;
        int used = snprintf(text, sizeof text, "cycle %llu: ", static_cast<unsigned long long>(cycle));
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text + used, sizeof text - used, format, arguments);
        va_end(arguments);
    }
};

// First in, first out, of fixed size (a power of two); the user checks full() and empty().
template <typename T, unsigned SIZE>
class Queue {
    static_assert((SIZE & (SIZE - 1)) == 0, "a power of two");
    T m_slots[SIZE];
    uint32_t m_head = 0;
    uint32_t m_tail = 0;

public:
    bool empty() const { return m_head == m_tail; }
    uint32_t size() const { return m_tail - m_head; }
    bool full() const { return size() == SIZE; }
    T& front() { return m_slots[m_head % SIZE]; }
    const T& front() const { return m_slots[m_head % SIZE]; }
    T& at(uint32_t n) { return m_slots[(m_head + n) % SIZE]; }
    T& push() { return m_slots[m_tail++ % SIZE]; }
    void pop(uint32_t n = 1) { m_head += n; }
    void clear() { m_head = m_tail = 0; }
};

enum Channel { AR, R, AW, W, B, LITE_AR, LITE_R, LITE_AW, LITE_W, LITE_B, CHANNELS };

// Withholds handshakes at random, the same way for the same seed (splitmix64, Steele et al. 2014).
// Every channel has its own probability, from never to nearly always, drawn anew for each stretch
// of 64 cycles, so that long waits and free runs both occur.
class Stalls {
    bool m_on = false;
    uint64_t m_state = 0;
    uint64_t m_bits = 0;
    uint8_t m_threshold[CHANNELS] = {};
    uint32_t m_left = 0;

    uint64_t draw() {
        uint64_t z = (m_state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

public:
    // How the slave pairs the two halves of a write; the bus standard allows all three.
    enum Pairing { FREE, ADDRESS_WAITS_FOR_DATA, DATA_WAITS_FOR_ADDRESS };
    Pairing pairing = FREE;

    void seed(bool on, uint64_t seed) {
        m_on = on;
        m_state = seed;
        m_left = 0;
        pairing = on ? static_cast<Pairing>(draw() % 3) : FREE;
    }

    bool on() const { return m_on; }

    void tick() {
        if (!m_on) return;
        m_bits = draw();
        if (m_left-- > 0) return;
        m_left = 63;
        static const uint8_t levels[8] = {0, 0, 0, 8, 16, 32, 48, 60};
        uint64_t pick = draw();
        for (int channel = 0; channel < CHANNELS; ++channel, pick >>= 3)
            m_threshold[channel] = levels[pick & 7];
    }

    // Whether this channel is held back in this cycle.
    bool hold(Channel channel) const {
        return m_on && ((m_bits >> (6 * channel)) & 63) < m_threshold[channel];
    }

    // Extra latency of a burst: mostly none, at times up to 63 cycles.
    uint32_t extra() {
        if (!m_on) return 0;
        uint64_t value = draw();
        return (value & 3) ? 0 : (value >> 8) & 63;
    }
};
