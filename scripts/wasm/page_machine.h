/* The machine of the page, as C calls it: registers, memory, and a sample of every cycle. */
#ifndef PAGE_MACHINE_H
#define PAGE_MACHINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function that the page calls. */
#define FOR_PAGE(name) __attribute__((export_name(#name)))

enum { PAGE_MEMORY_BYTES = 1 << 20, MOST_SAMPLES = 1 << 17 };
#define PAGE_MEMORY_BASE 0x4000000000u

/* A cycle. `events` are the first bits of the events that the machine counts. `bus`: which channels moved a
   word, one bit each, from bit 0: AR, R, AW, W, B of the memory, read and write of a register; bit 7: the
   interrupt. `read` and `written`: offsets in memory of the beat that moved, all ones for none. */
typedef struct sample {
    uint32_t events, bus, read, written;
} sample;

void machine_reset(void);
uint32_t machine_read(uint32_t offset);
void machine_write(uint32_t offset, uint32_t value);
int machine_wait(void); /* runs until the interrupt; 1 if the machine hangs or breaks a rule of the bus */
uint8_t *machine_memory(void);
const char *machine_fault(void);
void machine_record(int on); /* samples are kept from now on, after those that there are, or no more */
void machine_forget(void);   /* all samples */

#ifdef __cplusplus
}
#endif
#endif
