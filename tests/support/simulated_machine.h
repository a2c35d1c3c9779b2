/* The library of a simulated machine, as C calls it; and a list of what is done with its registers and
   its memory. */
#ifndef SIMULATED_MACHINE_H
#define SIMULATED_MACHINE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

enum { MEMORY_BYTES = 1 << 20 };

/* FNV-1a of all of the memory. */
static inline uint64_t memory_hash(machine *its)
{
    const uint8_t *memory = machine_memory(its);
    uint64_t hash = 0xcbf29ce484222325u;
    uint32_t n;
    for (n = 0; n < MEMORY_BYTES; ++n) hash = (hash ^ memory[n]) * 0x100000001b3u;
    return hash;
}

/* An access to a register, as a line of the file that ACCESSES names in the environment; before a write
   with a hash of the memory, which says what host and machine have put there until then. */
static inline void list_access(machine *its, char kind, uint32_t offset, uint32_t value)
{
    const char *name = getenv("ACCESSES");
    FILE *file = name ? fopen(name, "a") : NULL;
    if (!file) return;
    fprintf(file, "%c %03x %08x", kind, (unsigned)offset, (unsigned)value);
    if (kind == 'w') fprintf(file, " %016llx", (unsigned long long)memory_hash(its));
    fprintf(file, "\n");
    fclose(file);
}

static inline uint32_t read_listed(machine *its, uint32_t offset)
{
    uint32_t value, response;
    if (machine_read(its, offset, &value, &response) || response) abort();
    list_access(its, 'r', offset, value);
    return value;
}

static inline void write_listed(machine *its, uint32_t offset, uint32_t value)
{
    uint32_t response;
    list_access(its, 'w', offset, value);
    if (machine_write(its, offset, value, &response) || response) abort();
}

#endif
