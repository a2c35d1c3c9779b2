/* A board for the host of a product: the machine in Verilator, by the library of its simulation.
   DRIVER, PORT and BOARD are names of the product: header, type of a port, the host's function.
   With POLL in the environment there is no interrupt; with STALLS every handshake is held back. */
#include DRIVER
#include "simulated_machine.h"

int BOARD(PORT *port, uint8_t **memory, uint64_t *address, uint64_t *bytes);

static uint32_t read_register(void *context, uint32_t offset)
{
    return read_listed((machine *)context, offset);
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    write_listed((machine *)context, offset, value);
}

static int wait_irq(void *context)
{
    return machine_run((machine *)context, 1000000);
}

int BOARD(PORT *port, uint8_t **memory, uint64_t *address, uint64_t *bytes)
{
    const int stalls = getenv("STALLS") != 0;
    const struct options options = {0x4000000000u, MEMORY_BYTES, 20, 20, 4, 0, 20000, 5,
                                    (uint32_t)stalls, (uint32_t)stalls};
    machine *its = machine_new(&options);
    if (!its) return 1;
    machine_reset(its);
    *memory = machine_memory(its);
    memset(*memory, 0xA5, MEMORY_BYTES);
    *address = options.base;
    *bytes = options.bytes;
    port->context = its;
    port->read = read_register;
    port->write = write_register;
    port->wait_irq = getenv("POLL") ? 0 : wait_irq;
    return 0;
}
