/* The board of product/sw/host.c under Linux: the registers are a UIO device, the memory a buffer of
   u-dma-buf. Both are found by the names that the device tree gives them.

     make && sudo ./host */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine_driver.h"

#define REGISTERS "@UIO_NAME@"
#define BUFFER "@BUFFER_NAME@"
#define UIO_CLASS "/sys/class/uio"
#define BUFFER_CLASS "/sys/class/u-dma-buf"

enum { REGISTER_BYTES = @REGISTER_BYTES@, PATH_BYTES = 512, LOOK_MS = 1000 };

static int uio = -1; /* the open device: its interrupt */
static volatile uint32_t *registers;

/* Writes to memory and to registers are seen by the machine in the order of the program. */
static void barrier(void)
{
#if defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("dsb sy" ::: "memory");
#else
    __sync_synchronize();
#endif
}

static uint32_t read_register(void *context, uint32_t offset)
{
    const uint32_t value = registers[offset / 4];
    (void)context;
    barrier();
    return value;
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    (void)context;
    barrier();
    registers[offset / 4] = value;
}

/* Until the interrupt comes. Not 0 if the device fails, or the machine is at rest without one. */
static int wait_irq(void *context)
{
    const uint32_t enable = 1;
    uint32_t count;
    struct pollfd waiting;
    int ready = 0;
    if (write(uio, &enable, sizeof enable) != (ssize_t)sizeof enable)
        return perror("enabling the interrupt of " REGISTERS), 1;
    waiting.fd = uio;
    waiting.events = POLLIN;
    while (ready == 0) {
        const uint32_t busy = read_register(context, MACHINE_REG_STATUS) & MACHINE_STATUS_BUSY;
        ready = poll(&waiting, 1, LOOK_MS);
        if (ready < 0 && errno == EINTR) ready = 0;
        else if (ready == 0 && !busy)
            return fprintf(stderr, "the machine is at rest, but its interrupt did not come\n"), 1;
    }
    if (ready < 0 || read(uio, &count, sizeof count) != (ssize_t)sizeof count)
        return perror("waiting for the interrupt of " REGISTERS), 1;
    return 0;
}

/* The first line of a file; not 0 if there is none. */
static int read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "r");
    char *found = file ? fgets(line, size, file) : NULL;
    if (file) fclose(file);
    if (!found) return 1;
    line[strcspn(line, "\n")] = 0;
    return 0;
}

/* A number that a file of /sys has, decimal or with 0x; not 0 if it has none. */
static int read_number(const char *path, uint64_t *number)
{
    char line[64], *end;
    if (read_line(path, line, sizeof line)) return 1;
    *number = strtoull(line, &end, 0);
    return end == line;
}

/* Opens the UIO device whose name is that of the registers, and maps them; not 0 if there is none. */
static int open_registers(void)
{
    DIR *devices = opendir(UIO_CLASS);
    struct dirent *entry;
    char path[PATH_BYTES], name[64];
    uint64_t size = 0;
    void *at = MAP_FAILED;
    while (uio < 0 && devices && (entry = readdir(devices)) != NULL) {
        snprintf(path, sizeof path, UIO_CLASS "/%s/name", entry->d_name);
        if (read_line(path, name, sizeof name) || strcmp(name, REGISTERS)) continue;
        snprintf(path, sizeof path, UIO_CLASS "/%s/maps/map0/size", entry->d_name);
        if (read_number(path, &size)) size = 0;
        snprintf(path, sizeof path, "/dev/%s", entry->d_name);
        uio = open(path, O_RDWR | O_SYNC);
        if (uio < 0) return perror(path), 1;
    }
    if (devices) closedir(devices);
    if (uio < 0)
        return fprintf(stderr, "no device in " UIO_CLASS " is called " REGISTERS ": is the overlay "
                       "applied, and uio_pdrv_genirq loaded with of_id=generic-uio?\n"), 1;
    if (size < REGISTER_BYTES)
        return fprintf(stderr, "%s has %" PRIu64 " bytes of registers, not %d\n", path, size,
                       REGISTER_BYTES), 1;
    at = mmap(NULL, REGISTER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, uio, 0);
    if (at == MAP_FAILED) return perror("mapping the registers"), 1;
    registers = at;
    return 0;
}

/* Maps the buffer without caches, which the machine's port does not see; not 0 without a buffer. */
static int open_memory(uint8_t **memory, uint64_t *address, uint64_t *bytes)
{
    int buffer;
    void *at;
    if (read_number(BUFFER_CLASS "/" BUFFER "/phys_addr", address) ||
        read_number(BUFFER_CLASS "/" BUFFER "/size", bytes))
        return fprintf(stderr, "there is no " BUFFER_CLASS "/" BUFFER ": is the overlay applied, and "
                       "the module u-dma-buf loaded?\n"), 1;
    buffer = open("/dev/" BUFFER, O_RDWR | O_SYNC);
    if (buffer < 0) return perror("/dev/" BUFFER), 1;
    at = mmap(NULL, (size_t)*bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
    close(buffer);
    if (at == MAP_FAILED) return perror("mapping /dev/" BUFFER), 1;
    *memory = at;
    return 0;
}

int machine_board(machine_port *port, uint8_t **memory, uint64_t *address, uint64_t *bytes)
{
    if (open_registers() || open_memory(memory, address, bytes)) return 1;
    port->context = NULL;
    port->read = read_register;
    port->write = write_register;
    port->wait_irq = wait_irq;
    return 0;
}
