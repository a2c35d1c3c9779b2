/* A board for the host of a product: the machine in Verilator, by the library of its simulation.
   DRIVER, PORT and BOARD are names of the product: header, type of a port, the host's function.
   With POLL in the environment there is no interrupt; with STALLS every handshake is held back. */
#include <stdlib.h>

#include DRIVER

struct options { /* `Options` of the library */
    uint64_t base, bytes;
    uint32_t read_latency, write_latency, outstanding, write_pause;
    uint64_t watchdog_cycles, stall_seed;
    uint32_t stalls, random_powerup;
};

typedef struct machine machine;
#ifdef __cplusplus
extern "C" {
#endif
machine *machine_new(const struct options *options);
void machine_reset(machine *its);
uint8_t *machine_memory(machine *its);
int machine_read(machine *its, uint32_t address, uint32_t *value, uint32_t *response);
int machine_write(machine *its, uint32_t address, uint32_t value, uint32_t *response);
int machine_run(machine *its, uint64_t cycles);
#ifdef __cplusplus
}
#endif

int BOARD(PORT *port, uint8_t **memory, uint64_t *address, uint64_t *bytes);

static uint32_t read_register(void *context, uint32_t offset)
{
    uint32_t value, response;
    if (machine_read((machine *)context, offset, &value, &response) || response) abort();
    return value;
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    uint32_t response;
    if (machine_write((machine *)context, offset, value, &response) || response) abort();
}

static int wait_irq(void *context)
{
    return machine_run((machine *)context, 1000000);
}

int BOARD(PORT *port, uint8_t **memory, uint64_t *address, uint64_t *bytes)
{
    const int stalls = getenv("STALLS") != 0;
    const struct options options = {0x4000000000u, 1u << 20, 20, 20, 4, 0, 20000, 5,
                                    (uint32_t)stalls, (uint32_t)stalls};
    machine *its = machine_new(&options);
    if (!its) return 1;
    machine_reset(its);
    *memory = machine_memory(its);
    memset(*memory, 0xA5, 1u << 20);
    *address = options.base;
    *bytes = options.bytes;
    port->context = its;
    port->read = read_register;
    port->write = write_register;
    port->wait_irq = getenv("POLL") ? 0 : wait_irq;
    return 0;
}
