// The host's side of the registers: an AXI4-Lite master behind the ports s_axil_*, one access at a
// time, with the checks that the standard puts on the slave's answers.
#pragma once

#include "common.hpp"

class RegisterMaster {
    bool m_ar = false;  // still to be accepted
    bool m_aw = false;
    bool m_w = false;
    bool m_ar_up = false;  // valid has been shown, so it stays until accepted
    bool m_aw_up = false;
    bool m_w_up = false;
    bool m_reading = false;  // an answer is outstanding
    bool m_writing = false;
    bool m_r_waiting = false;
    bool m_b_waiting = false;
    uint32_t m_r_seen = 0;
    uint32_t m_b_seen = 0;
    uint32_t m_address = 0;
    uint32_t m_value = 0;
    uint32_t m_strobes = 0;

public:
    uint32_t value = 0;     // of the last read
    uint32_t response = 0;  // of the last access
    uint64_t handshakes = 0;

    bool busy() const { return m_reading || m_writing; }

    void reset() {
        m_ar = m_aw = m_w = m_ar_up = m_aw_up = m_w_up = false;
        m_reading = m_writing = m_r_waiting = m_b_waiting = false;
    }

    void read(uint32_t address) {
        m_address = address;
        m_ar = m_reading = true;
    }

    void write(uint32_t address, uint32_t value, uint32_t strobes) {
        m_address = address;
        m_value = value;
        m_strobes = strobes;
        m_aw = m_w = m_writing = true;
    }

    void drive(Vproduct& top, const Stalls& stalls) {
        m_ar_up = m_ar && (m_ar_up || !stalls.hold(LITE_AR));
        m_aw_up = m_aw && (m_aw_up || !stalls.hold(LITE_AW));
        m_w_up = m_w && (m_w_up || !stalls.hold(LITE_W));
        top.s_axil_arvalid = m_ar_up;
        top.s_axil_awvalid = m_aw_up;
        top.s_axil_wvalid = m_w_up;
        top.s_axil_rready = m_reading && !stalls.hold(LITE_R);
        top.s_axil_bready = m_writing && !stalls.hold(LITE_B);
        if (!busy()) return;
        // Without its valid signal a channel says the opposite, which nobody may look at.
        top.s_axil_araddr = (m_ar_up ? m_address : ~m_address) & 0xfff;
        top.s_axil_awaddr = (m_aw_up ? m_address : ~m_address) & 0xfff;
        top.s_axil_arprot = top.s_axil_awprot = 0;
        top.s_axil_wdata = m_w_up ? m_value : ~m_value;
        top.s_axil_wstrb = m_w_up ? m_strobes : 15;
    }

    void sample(const Vproduct& top, Fault& fault, uint64_t cycle) {
        if (top.s_axil_rvalid || m_r_waiting) sample_read(top, fault, cycle);
        if (top.s_axil_bvalid || m_b_waiting) sample_write(top, fault, cycle);
        if (!busy()) return;
        if (m_ar_up && top.s_axil_arready) m_ar = m_ar_up = false, ++handshakes;
        if (m_aw_up && top.s_axil_awready) m_aw = m_aw_up = false, ++handshakes;
        if (m_w_up && top.s_axil_wready) m_w = m_w_up = false, ++handshakes;
    }

private:
    void sample_read(const Vproduct& top, Fault& fault, uint64_t cycle) {
        if (!top.s_axil_rvalid) {
            fault.raise(cycle, "s_axil_r: valid fell before ready");
        } else if (!m_reading || m_ar) {
            fault.raise(cycle, "s_axil_r: an answer that nobody asked for");
        } else if (m_r_waiting && (top.s_axil_rdata != m_r_seen)) {
            fault.raise(cycle, "s_axil_r: payload changed before ready");
        }
        m_r_seen = top.s_axil_rdata;
        m_r_waiting = top.s_axil_rvalid && !top.s_axil_rready;
        if (!top.s_axil_rvalid || !top.s_axil_rready) return;
        value = top.s_axil_rdata;
        response = top.s_axil_rresp;
        m_reading = false;
        ++handshakes;
    }

    void sample_write(const Vproduct& top, Fault& fault, uint64_t cycle) {
        if (!top.s_axil_bvalid) {
            fault.raise(cycle, "s_axil_b: valid fell before ready");
        } else if (!m_writing || m_aw || m_w) {
            fault.raise(cycle, "s_axil_b: an answer that nobody asked for");
        } else if (m_b_waiting && (top.s_axil_bresp != m_b_seen)) {
            fault.raise(cycle, "s_axil_b: payload changed before ready");
        }
        m_b_seen = top.s_axil_bresp;
        m_b_waiting = top.s_axil_bvalid && !top.s_axil_bready;
        if (!top.s_axil_bvalid || !top.s_axil_bready) return;
        response = top.s_axil_bresp;
        m_writing = false;
        ++handshakes;
    }
};
