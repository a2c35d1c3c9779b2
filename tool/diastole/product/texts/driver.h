/* Driver of a machine: inline functions for C11 and C++. The functions keep no state.

   The host provides two functions in `machine_port` that read and write a register. The host and
   the machine share memory. The host writes tensors and commands into the memory through pointers,
   and gives the machine the addresses on the bus. Before a start, the host makes the writes visible
   to the machine: with a barrier, and with a cache flush if the memory is cached and the port is
   not coherent. Before the host reads results, the host uses a barrier, and invalidates the caches
   under the same condition. A function with a result of type int returns 0, or an error number. */
#ifndef MACHINE_DRIVER_H
#define MACHINE_DRIVER_H

#include <stdint.h>
#include <string.h>

#include "machine.h"

/* Access to the registers. `read` and `write` access the register at a byte offset. `wait_irq` waits
   until the interrupt is high and returns 0, or returns another number to give up. If `wait_irq` is
   0, the driver polls the register STATUS. Every function receives `context`. */
typedef struct machine_port {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    int (*wait_irq)(void *context);
} machine_port;

/* Function of a board, called by `host.c`. The board fills `port`, and provides `bytes` bytes of
   shared memory. `memory` is the pointer of the host to the first byte, and `address` is the address
   of the first byte on the bus, a multiple of a beat. The function returns 0 on success. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
int machine_board(machine_port *port, uint8_t **memory, uint64_t *address, uint64_t *bytes);

enum { MACHINE_X = MACHINE_X_CLASS, MACHINE_W = MACHINE_W_CLASS, MACHINE_DY = MACHINE_DY_CLASS };

/* Results of `machine_identify` and of functions that wait: no machine at the registers, another
   register map, another configuration, machine still busy. Error codes of the machine are smaller
   than 0x100. */
enum { MACHINE_NO_MACHINE = 0x100, MACHINE_OTHER_VERSION, MACHINE_OTHER_CONFIG, MACHINE_TIMEOUT };

/* Sizes of tensors and images. */

/* Return `value`, rounded up to a multiple of `unit`. */
static inline uint64_t machine_round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Return the bytes from one row of floats to the next row. Every row begins on a beat. */
static inline uint64_t machine_float_pitch(uint32_t cols)
{
    return machine_round_up(4 * (uint64_t)cols, MACHINE_BEAT_BYTES);
}

/* Return the bytes of a tensor of floats. */
static inline uint64_t machine_float_bytes(uint32_t rows, uint32_t cols)
{
    return rows * machine_float_pitch(cols);
}

/* Layout of one plane of the image of a copy. Offsets and sizes are in bytes. */
typedef struct machine_image {
    uint32_t tensor_class;
    uint32_t rows, cols; /* of the stored copy: the second copy is transposed */
    uint32_t row_blocks, col_blocks, row_groups;
    uint64_t pitch_bytes; /* from one row of blocks to the next row of blocks */
    uint64_t row_max_entries, col_max_entries;
    uint64_t row_max_offset, col_max_offset;
    uint64_t total_bytes;
} machine_image;

/* Properties that all images of a class share. Sizes are in bytes. */
typedef struct machine_class {
    uint32_t copies, max_planes, element_bits, vector;
    uint32_t header_bytes, exponent_bytes, exponent_runs, group_bytes;
} machine_class;

/* Return the properties of the images of a class. */
static inline machine_class machine_class_of(uint32_t tensor_class)
{
    static const machine_class classes[3] = {
        {MACHINE_X_COPIES, MACHINE_X_MAX_PLANES, MACHINE_X_ELEMENT_BITS, MACHINE_X_VECTOR,
         MACHINE_X_HEADER_BYTES, MACHINE_X_EXPONENT_BYTES, MACHINE_X_EXPONENT_RUNS,
         MACHINE_X_GROUP_BYTES},
        {MACHINE_W_COPIES, MACHINE_W_MAX_PLANES, MACHINE_W_ELEMENT_BITS, MACHINE_W_VECTOR,
         MACHINE_W_HEADER_BYTES, MACHINE_W_EXPONENT_BYTES, MACHINE_W_EXPONENT_RUNS,
         MACHINE_W_GROUP_BYTES},
        {MACHINE_DY_COPIES, MACHINE_DY_MAX_PLANES, MACHINE_DY_ELEMENT_BITS, MACHINE_DY_VECTOR,
         MACHINE_DY_HEADER_BYTES, MACHINE_DY_EXPONENT_BYTES, MACHINE_DY_EXPONENT_RUNS,
         MACHINE_DY_GROUP_BYTES},
    };
    return classes[tensor_class];
}

/* Return the layout of the image of copy 0 or 1 of a tensor of `rows` x `cols`. Only classes with
   two copies have a copy 1. The function does not check the class, the copy and the sizes. */
static inline machine_image machine_image_of(uint32_t tensor_class, uint32_t copy, uint32_t rows,
                                             uint32_t cols)
{
    const machine_class storage = machine_class_of(tensor_class);
    machine_image image;
    image.tensor_class = tensor_class;
    image.rows = copy ? cols : rows;
    image.cols = copy ? rows : cols;
    image.row_blocks = (image.rows + MACHINE_BLOCK - 1) / MACHINE_BLOCK;
    image.col_blocks = (image.cols + MACHINE_BLOCK - 1) / MACHINE_BLOCK;
    image.row_groups = (image.col_blocks + 7) / 8;
    image.pitch_bytes = (uint64_t)image.row_groups * storage.group_bytes;
    image.row_max_entries = (uint64_t)image.row_blocks * (storage.vector ? MACHINE_BLOCK : 1);
    image.col_max_entries = storage.vector ? 0 : image.col_blocks;
    image.row_max_offset = storage.header_bytes + image.row_blocks * image.pitch_bytes;
    image.col_max_offset =
        image.row_max_offset + machine_round_up(image.row_max_entries, MACHINE_BEAT_BYTES);
    image.total_bytes =
        image.col_max_offset + machine_round_up(image.col_max_entries, MACHINE_BEAT_BYTES);
    return image;
}

/* Return the bytes of the image of a copy with `planes` planes. `planes` is 1 in all formats except
   `fast`. */
static inline uint64_t machine_image_bytes(uint32_t tensor_class, uint32_t copy, uint32_t rows,
                                           uint32_t cols, uint32_t planes)
{
    return planes * machine_image_of(tensor_class, copy, rows, cols).total_bytes;
}

/* Return the offset of the group of 8 blocks that contains an element. `row` and `col` are the
   place of the element in the stored copy. */
static inline uint64_t machine_group_offset(const machine_image *image, uint32_t row, uint32_t col)
{
    const machine_class storage = machine_class_of(image->tensor_class);
    return storage.header_bytes + row / MACHINE_BLOCK * image->pitch_bytes +
           (uint64_t)(col / MACHINE_BLOCK / 8) * storage.group_bytes;
}

/* Return the offset of the exponent byte of an element of the stored copy. */
static inline uint64_t machine_exponent_offset(const machine_image *image, uint32_t row,
                                               uint32_t col)
{
    const machine_class storage = machine_class_of(image->tensor_class);
    const uint32_t block = col / MACHINE_BLOCK;
    uint32_t byte = block % 8;
    if (storage.vector)
        byte = col / storage.vector % storage.exponent_runs * MACHINE_BLOCK + row % MACHINE_BLOCK;
    return machine_group_offset(image, row, col) + byte;
}

/* Return the number of the first bit of an element of the stored copy. Bits are counted from the
   start of the image: bit n is bit n % 8 of byte n / 8. */
static inline uint64_t machine_element_bit(const machine_image *image, uint32_t row, uint32_t col)
{
    const machine_class storage = machine_class_of(image->tensor_class);
    const uint64_t place = ((uint64_t)(col / MACHINE_BLOCK % 8) * MACHINE_BLOCK +
                            row % MACHINE_BLOCK) * MACHINE_BLOCK + col % MACHINE_BLOCK;
    return 8 * (machine_group_offset(image, row, col) + storage.exponent_bytes) +
           place * storage.element_bits;
}

/* Commands. A command has MACHINE_COMMAND_BYTES bytes and begins on a beat. Optional arguments may
   stay 0. An encoder returns 0, or 1 if a value does not fit in the field of the value. */

/* Write `value` to `bits` bits of a command, from bit `low` of a word on. The bits must be 0 before.
   Return 1 if the value does not fit. */
static inline int machine_put(uint8_t *command, unsigned word, unsigned low, unsigned bits,
                              uint64_t value)
{
    unsigned bit;
    for (bit = 0; bit < bits; ++bit) {
        const unsigned place = 32 * word + low + bit;
        if (value >> bit & 1) command[place / 8] = (uint8_t)(command[place / 8] | 1u << place % 8);
    }
    return bits < 64 && value >> bits != 0;
}

/* Clear a command, and write the opcode and the version. */
static inline void machine_begin_command(uint8_t *command, unsigned opcode)
{
    memset(command, 0, MACHINE_COMMAND_BYTES);
    command[0] = (uint8_t)opcode;
    command[1] = MACHINE_COMMAND_VERSION;
}
@commands@
@programs@
/* Registers. */

/* Write a register of two words, the lower word first. */
static inline void machine_write64(const machine_port *port, uint32_t offset, uint64_t value)
{
    port->write(port->context, offset, (uint32_t)value);
    port->write(port->context, offset + 4, (uint32_t)(value >> 32));
}

/* Read a register of two words that may change between the reads of the words. The function repeats
   the reads until the upper word is the same before and after the read of the lower word. */
static inline uint64_t machine_read64(const machine_port *port, uint32_t offset)
{
    uint32_t high = port->read(port->context, offset + 4), low, previous;
    do {
        previous = high;
        low = port->read(port->context, offset);
        high = port->read(port->context, offset + 4);
    } while (high != previous);
    return (uint64_t)high << 32 | low;
}

/* Return 0 if the machine at the registers is the machine of this header. */
static inline int machine_identify(const machine_port *port)
{
    if (port->read(port->context, MACHINE_REG_MAGIC) != MACHINE_RESET_MAGIC)
        return MACHINE_NO_MACHINE;
    if (port->read(port->context, MACHINE_REG_VERSION) != MACHINE_RESET_VERSION)
        return MACHINE_OTHER_VERSION;
    if (port->read(port->context, MACHINE_REG_CONFIG_HASH) != MACHINE_RESET_CONFIG_HASH)
        return MACHINE_OTHER_CONFIG;
    return 0;
}

/* Set the ranges of memory that the machine may read, commands included, and may write. A base is
   the address of the first byte, and a limit is the address after the last byte. The ranges are
   settings: the host may change settings only while the machine is not busy. */
static inline void machine_windows(const machine_port *port, uint64_t read_base,
                                   uint64_t read_limit, uint64_t write_base, uint64_t write_limit)
{
    machine_write64(port, MACHINE_REG_READ_BASE, read_base);
    machine_write64(port, MACHINE_REG_READ_LIMIT, read_limit);
    machine_write64(port, MACHINE_REG_WRITE_BASE, write_base);
    machine_write64(port, MACHINE_REG_WRITE_LIMIT, write_limit);
}

/* Set the seed of all random bits. */
static inline void machine_seed(const machine_port *port, uint32_t seed)
{
    port->write(port->context, MACHINE_REG_SEED, seed);
}

/* Write CONTROL. The interrupt is enabled if the host can wait for the interrupt. */
static inline void machine_control(const machine_port *port, uint32_t bits)
{
    const uint32_t enable = port->wait_irq ? MACHINE_CONTROL_IRQ_ENABLE : 0;
    port->write(port->context, MACHINE_REG_CONTROL, bits | enable);
}

/* Set all counters and flags to 0. */
static inline void machine_clear(const machine_port *port)
{
    machine_control(port, MACHINE_CONTROL_CLEAR);
}

/* Start `count` commands, stored one after the other. `address` is the address of the first command
   on the bus, a multiple of a beat. */
static inline void machine_start(const machine_port *port, uint64_t address, uint32_t count)
{
    machine_write64(port, MACHINE_REG_COMMAND_ADDRESS, address);
    port->write(port->context, MACHINE_REG_COMMAND_COUNT, count);
    machine_control(port, MACHINE_CONTROL_START);
}

/* Wait until all commands are done. Return 0, an error code of the machine, or MACHINE_TIMEOUT. The
   function reads STATUS at most `looks` times, or without limit if `looks` is 0. After an error
   code, call `machine_reset`. MACHINE_TIMEOUT is also the result if `wait_irq` gives up. */
static inline int machine_wait(const machine_port *port, uint64_t looks)
{
    uint64_t look;
    for (look = 0; looks == 0 || look < looks; ++look) {
        uint32_t status;
        if (port->wait_irq && port->wait_irq(port->context)) break;
        status = port->read(port->context, MACHINE_REG_STATUS);
        if (status & MACHINE_STATUS_ERROR)
            return (int)port->read(port->context, MACHINE_REG_ERROR_CODE);
        if (status & MACHINE_STATUS_DONE) {
            port->write(port->context, MACHINE_REG_STATUS, MACHINE_STATUS_DONE);
            return 0;
        }
    }
    return MACHINE_TIMEOUT;
}

/* Stop the commands, and clear the error and the status. Settings stay. Return 0, or MACHINE_TIMEOUT
   if the machine is still busy after `looks` reads of STATUS (0: no limit). */
static inline int machine_reset(const machine_port *port, uint64_t looks)
{
    uint64_t look;
    machine_control(port, MACHINE_CONTROL_RESET);
    for (look = 0; looks == 0 || look < looks; ++look)
        if (!(port->read(port->context, MACHINE_REG_STATUS) & MACHINE_STATUS_BUSY)) return 0;
    return MACHINE_TIMEOUT;
}

/* Return a text for a result of the functions above. */
static inline const char *machine_error_text(int code)
{
    switch (code) {
    case MACHINE_NO_MACHINE: return "no Diastole machine is at these registers";
    case MACHINE_OTHER_VERSION: return "the machine has another register map";
    case MACHINE_OTHER_CONFIG: return "the machine was generated from another configuration";
    case MACHINE_TIMEOUT: return "the machine is still busy";
@errors@
    default: return "an unknown error";
    }
}

#endif
