
// Memory at the port PORT. The memory accepts one read burst and one write burst at a time.
static struct {
    uint64_t read_at = 0, write_at = 0;
    unsigned left = 0;
    bool writing = false, answer = false;

    void sample()  // reads the handshakes just before the rising edge
    {
        if (top.PORT_bvalid && top.PORT_bready) answer = false;
        if (top.PORT_rvalid && top.PORT_rready) {
            read_at += MACHINE_BEAT_BYTES;
            --left;
        }
        if (top.PORT_arvalid && top.PORT_arready) {
            read_at = top.PORT_araddr;
            left = top.PORT_arlen + 1;
        }
        if (top.PORT_wvalid && top.PORT_wready) {
            uint8_t *target = place(write_at);
            const uint8_t *source = reinterpret_cast<const uint8_t *>(&top.PORT_wdata);
            for (unsigned n = 0; n < MACHINE_BEAT_BYTES; ++n)
                if (uint64_t(top.PORT_wstrb) >> n & 1) target[n] = source[n];
            write_at += MACHINE_BEAT_BYTES;
            if (top.PORT_wlast) writing = false, answer = true;
        }
        if (top.PORT_awvalid && top.PORT_awready) {
            write_at = top.PORT_awaddr;
            writing = true;
        }
    }

    void drive()  // sets the inputs of the machine for the next cycle
    {
        top.PORT_arready = left == 0;
        top.PORT_rvalid = left != 0;
        top.PORT_rlast = left == 1;
        if (left) memcpy(&top.PORT_rdata, place(read_at), MACHINE_BEAT_BYTES);
        top.PORT_awready = !writing && !answer;
        top.PORT_wready = writing;
        top.PORT_bvalid = answer;
    }
} PORT_memory;
