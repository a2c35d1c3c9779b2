/* @NAME@ from Linux on the @BOARD@: finds the machine and its memory, checks that it is the one of
 * this folder, and runs an empty list of commands to its interrupt. What a command is, is in
 * product/README.md and product/sw.
 *
 *   cc -O2 -Wall -o host host.c && sudo ./host
 */
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
@REGISTERS@
  REGISTER_BYTES = @REGISTER_BYTES@
};
#define CONFIG_HASH UINT32_C(0x@CONFIG_HASH@)
#define MAGIC UINT32_C(0x@MAGIC@)
#define MEMORY_BYTES ((size_t)@MEMORY_BYTES@)

static volatile uint32_t *registers;

static uint32_t get(unsigned offset) { return registers[offset / 4]; }
static void put(unsigned offset, uint32_t value) { registers[offset / 4] = value; }
static void put_address(unsigned offset, uint64_t value) {
  put(offset, (uint32_t)value);
  put(offset + 4, (uint32_t)(value >> 32));
}

static int opened(const char *path, int flags) {
  int file = open(path, flags);
  if (file < 0) {
    perror(path);
    exit(2);
  }
  return file;
}

static void *mapped(int file, size_t bytes, const char *what) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    perror(what);
    exit(2);
  }
  return at;
}

int main(void) {
  /* O_SYNC: memory is not cached, for the machine's port does not see caches. */
  int uio = opened("/dev/uio0", O_RDWR | O_SYNC);
  int buffer = opened("/dev/udmabuf0", O_RDWR | O_SYNC);
  FILE *where = fopen("/sys/class/u-dma-buf/udmabuf0/phys_addr", "r");
  uint64_t physical = 0;
  if (where == NULL || fscanf(where, "%" SCNx64, &physical) != 1) {
    fprintf(stderr, "no address of udmabuf0\n");
    return 2;
  }
  fclose(where);
  registers = mapped(uio, REGISTER_BYTES, "registers");
  uint8_t *memory = mapped(buffer, MEMORY_BYTES, "memory");
  if (get(magic) != MAGIC || get(config_hash) != CONFIG_HASH) {
    fprintf(stderr, "another machine: magic %08" PRIx32 ", configuration %08" PRIx32 "\n",
            get(magic), get(config_hash));
    return 1;
  }
  memory[0] = 0; /* commands and tensors go here; the machine has it at `physical` */
  put(control, CONTROL_RESET);
  while (get(status) & STATUS_BUSY) {
  }
  put_address(read_base, physical);
  put_address(read_limit, physical + MEMORY_BYTES);
  put_address(write_base, physical);
  put_address(write_limit, physical + MEMORY_BYTES);
  put_address(command_address, physical);
  put(command_count, 0);
  uint32_t one = 1, count;
  if (write(uio, &one, sizeof one) != sizeof one) { /* let the interrupt through */
    perror("/dev/uio0");
    return 2;
  }
  put(control, CONTROL_START | CONTROL_IRQ_ENABLE);
  if (read(uio, &count, sizeof count) != sizeof count) {
    perror("/dev/uio0");
    return 2;
  }
  printf("status %08" PRIx32 " after interrupt %" PRIu32 "\n", get(status), count);
  return get(status) & STATUS_ERROR ? 1 : 0;
}
