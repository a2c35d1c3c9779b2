/* What a host does with a machine, in functions without memory of their own (C11, or C++).

   Registers are reached by two functions of the host, in `machine_port`. Memory that both see is
   the host's business: it writes tensors and commands there by its own pointers, and tells the
   machine the addresses on the bus. What it wrote must be visible to the machine before the start
   (a barrier, and a flush where memory is cached and the port is not coherent); likewise before it
   reads results. Results of functions: 0, or a number that says what was wrong. */
#ifndef MACHINE_DRIVER_H
#define MACHINE_DRIVER_H

#include <stdint.h>
#include <string.h>

#include "machine.h"

/* How the host reaches the registers. `wait_irq` may be 0, then the status is polled; else it comes
   back when the interrupt is high, with anything but 0 to give up. */
typedef struct machine_port {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    int (*wait_irq)(void *context);
} machine_port;

/* What a board gives `host.c`. `memory`: `bytes` of it as the host sees them, `address`: where they
   begin on the bus, on a beat. 0 if all is there. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
int machine_board(machine_port *port, uint8_t **memory, uint64_t *address, uint64_t *bytes);

enum { MACHINE_X = MACHINE_X_CLASS, MACHINE_W = MACHINE_W_CLASS, MACHINE_DY = MACHINE_DY_CLASS };

/* Of `machine_identify`, and of functions that wait: no machine; another register map; another
   configuration; still busy. Error codes of the machine are below. */
enum { MACHINE_NO_MACHINE = 0x100, MACHINE_OTHER_VERSION, MACHINE_OTHER_CONFIG, MACHINE_TIMEOUT };

/* Sizes. */

static inline uint64_t machine_round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Bytes from one row of floats to the next; every row begins on a beat. */
static inline uint64_t machine_float_pitch(uint32_t cols)
{
    return machine_round_up(4 * (uint64_t)cols, MACHINE_BEAT_BYTES);
}

/* Bytes of a tensor of floats. */
static inline uint64_t machine_float_bytes(uint32_t rows, uint32_t cols)
{
    return rows * machine_float_pitch(cols);
}

/* One plane of the image of a copy, and where its parts lie: offsets and sizes in bytes. */
typedef struct machine_image {
    uint32_t tensor_class;
    uint32_t rows, cols; /* as the copy is stored: the second one is transposed */
    uint32_t row_blocks, col_blocks, row_groups;
    uint64_t pitch_bytes; /* from one row of blocks to the next */
    uint64_t row_max_entries, col_max_entries;
    uint64_t row_max_offset, col_max_offset;
    uint64_t total_bytes;
} machine_image;

/* What the images of a class have in common; sizes in bytes. */
typedef struct machine_class {
    uint32_t copies, max_planes, element_bits, vector;
    uint32_t header_bytes, exponent_bytes, exponent_runs, group_bytes;
} machine_class;

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

/* The image of copy 0 or 1 of a tensor of `rows` x `cols`; the class says how many copies there
   are. Classes and copies that there are not, and sizes of 0, are not looked for. */
static inline machine_image machine_image_of(uint32_t tensor_class, uint32_t copy, uint32_t rows,
                                             uint32_t cols)
{
    const machine_class its = machine_class_of(tensor_class);
    machine_image image;
    image.tensor_class = tensor_class;
    image.rows = copy ? cols : rows;
    image.cols = copy ? rows : cols;
    image.row_blocks = (image.rows + MACHINE_BLOCK - 1) / MACHINE_BLOCK;
    image.col_blocks = (image.cols + MACHINE_BLOCK - 1) / MACHINE_BLOCK;
    image.row_groups = (image.col_blocks + 7) / 8;
    image.pitch_bytes = (uint64_t)image.row_groups * its.group_bytes;
    image.row_max_entries = (uint64_t)image.row_blocks * (its.vector ? MACHINE_BLOCK : 1);
    image.col_max_entries = its.vector ? 0 : image.col_blocks;
    image.row_max_offset = its.header_bytes + image.row_blocks * image.pitch_bytes;
    image.col_max_offset =
        image.row_max_offset + machine_round_up(image.row_max_entries, MACHINE_BEAT_BYTES);
    image.total_bytes =
        image.col_max_offset + machine_round_up(image.col_max_entries, MACHINE_BEAT_BYTES);
    return image;
}

/* Bytes of the image of a copy in `planes` planes, 1 in all formats but `fast`. */
static inline uint64_t machine_image_bytes(uint32_t tensor_class, uint32_t copy, uint32_t rows,
                                           uint32_t cols, uint32_t planes)
{
    return planes * machine_image_of(tensor_class, copy, rows, cols).total_bytes;
}

/* Where the group of 8 blocks lies that has an element of the copy as it is stored. */
static inline uint64_t machine_group_offset(const machine_image *image, uint32_t row, uint32_t col)
{
    const machine_class its = machine_class_of(image->tensor_class);
    return its.header_bytes + row / MACHINE_BLOCK * image->pitch_bytes +
           (uint64_t)(col / MACHINE_BLOCK / 8) * its.group_bytes;
}

/* The byte of the stored exponent of that element. */
static inline uint64_t machine_exponent_offset(const machine_image *image, uint32_t row,
                                               uint32_t col)
{
    const machine_class its = machine_class_of(image->tensor_class);
    const uint32_t block = col / MACHINE_BLOCK;
    uint32_t place = block % 8;
    if (its.vector)
        place = col / its.vector % its.exponent_runs * MACHINE_BLOCK + row % MACHINE_BLOCK;
    return machine_group_offset(image, row, col) + place;
}

/* The first bit of that element, from the image's address on: bit n is bit n % 8 of byte n / 8. */
static inline uint64_t machine_element_bit(const machine_image *image, uint32_t row, uint32_t col)
{
    const machine_class its = machine_class_of(image->tensor_class);
    const uint64_t place = ((uint64_t)(col / MACHINE_BLOCK % 8) * MACHINE_BLOCK +
                            row % MACHINE_BLOCK) * MACHINE_BLOCK + col % MACHINE_BLOCK;
    return 8 * (machine_group_offset(image, row, col) + its.exponent_bytes) +
           place * its.element_bits;
}

/* Commands: MACHINE_COMMAND_BYTES each, on a beat. What is left 0 in their arguments is the usual.
   An encoder's result is 0, or 1 if a value does not fit in its field. */

static inline int machine_put(uint8_t *command, unsigned word, unsigned low, unsigned bits,
                              uint64_t value)
{
    unsigned bit;
    for (bit = 0; bit < bits; ++bit) {
        const unsigned at = 32 * word + low + bit;
        if (value >> bit & 1) command[at / 8] = (uint8_t)(command[at / 8] | 1u << at % 8);
    }
    return bits < 64 && value >> bits != 0;
}

static inline void machine_begin_command(uint8_t *command, unsigned opcode)
{
    memset(command, 0, MACHINE_COMMAND_BYTES);
    command[0] = (uint8_t)opcode;
    command[1] = MACHINE_COMMAND_VERSION;
}
@commands@
@programs@
/* Registers. */

static inline void machine_write64(const machine_port *port, uint32_t offset, uint64_t value)
{
    port->write(port->context, offset, (uint32_t)value);
    port->write(port->context, offset + 4, (uint32_t)(value >> 32));
}

/* A register of two words that counts on meanwhile: read until its upper word stays. */
static inline uint64_t machine_read64(const machine_port *port, uint32_t offset)
{
    uint32_t high = port->read(port->context, offset + 4), low, before;
    do {
        before = high;
        low = port->read(port->context, offset);
        high = port->read(port->context, offset + 4);
    } while (high != before);
    return (uint64_t)high << 32 | low;
}

/* 0 if this is the machine that the header is of. */
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

/* Where the machine may read, commands included, and where it may write: first byte, and one past
   the last. Only while it is not busy, as all settings. */
static inline void machine_windows(const machine_port *port, uint64_t read_base,
                                   uint64_t read_limit, uint64_t write_base, uint64_t write_limit)
{
    machine_write64(port, MACHINE_REG_READ_BASE, read_base);
    machine_write64(port, MACHINE_REG_READ_LIMIT, read_limit);
    machine_write64(port, MACHINE_REG_WRITE_BASE, write_base);
    machine_write64(port, MACHINE_REG_WRITE_LIMIT, write_limit);
}

/* Of all random bits. */
static inline void machine_seed(const machine_port *port, uint32_t seed)
{
    port->write(port->context, MACHINE_REG_SEED, seed);
}

static inline void machine_control(const machine_port *port, uint32_t bits)
{
    const uint32_t enable = port->wait_irq ? MACHINE_CONTROL_IRQ_ENABLE : 0;
    port->write(port->context, MACHINE_REG_CONTROL, bits | enable);
}

/* All counters and flags become 0. */
static inline void machine_clear(const machine_port *port)
{
    machine_control(port, MACHINE_CONTROL_CLEAR);
}

/* Begin `count` commands that lie one behind the other at an address, which is on a beat. */
static inline void machine_start(const machine_port *port, uint64_t address, uint32_t count)
{
    machine_write64(port, MACHINE_REG_COMMAND_ADDRESS, address);
    port->write(port->context, MACHINE_REG_COMMAND_COUNT, count);
    machine_control(port, MACHINE_CONTROL_START);
}

/* Until all commands are done, looking at the status at most `looks` times (0: without an end).
   0, an error code of the machine, which then wants `machine_reset`, or MACHINE_TIMEOUT. */
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

/* Stop, and forget the error and what was done; settings stay. 0, or MACHINE_TIMEOUT. */
static inline int machine_reset(const machine_port *port, uint64_t looks)
{
    uint64_t look;
    machine_control(port, MACHINE_CONTROL_RESET);
    for (look = 0; looks == 0 || look < looks; ++look)
        if (!(port->read(port->context, MACHINE_REG_STATUS) & MACHINE_STATUS_BUSY)) return 0;
    return MACHINE_TIMEOUT;
}

/* What any result of these functions means. */
static inline const char *machine_error_text(int code)
{
    switch (code) {
    case MACHINE_NO_MACHINE: return "there is no such machine at these registers";
    case MACHINE_OTHER_VERSION: return "the machine has another map of registers";
    case MACHINE_OTHER_CONFIG: return "the machine was generated from another configuration";
    case MACHINE_TIMEOUT: return "the machine is still busy";
@errors@
    default: return "an unknown error";
    }
}

#endif
