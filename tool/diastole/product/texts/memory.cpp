
// Memory behind a port: a burst of each kind at a time.
static struct {
    uint64_t read_at = 0, write_at = 0;
    unsigned left = 0;
    bool writing = false, answer = false;

    void sample()  // just before the rising edge
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
            uint8_t *to = place(write_at);
            const uint8_t *from = reinterpret_cast<const uint8_t *>(&top.PORT_wdata);
            for (unsigned n = 0; n < MACHINE_BEAT_BYTES; ++n)
                if (uint64_t(top.PORT_wstrb) >> n & 1) to[n] = from[n];
            write_at += MACHINE_BEAT_BYTES;
            if (top.PORT_wlast) writing = false, answer = true;
        }
        if (top.PORT_awvalid && top.PORT_awready) {
            write_at = top.PORT_awaddr;
            writing = true;
        }
    }

    void drive()  // the inputs of the next cycle
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
