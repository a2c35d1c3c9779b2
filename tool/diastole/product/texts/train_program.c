/* Train by a program that `diastole program export` wrote, without Python. The program lies in a file, the
   memory image. The host fills the memory, adds the address of the memory to every address in the image,
   and starts the machine. The machine computes all steps of a start alone, and then interrupts.

   The image is the first argument, or the file that the variable IMAGE of the environment names. With a
   second argument, or with the variable RESULT, the memory at the end is written to that file. `make -C
   product/sw HOST=../../exported/train.c IMAGE=../../exported/program.bin` runs the program in simulation. */
#include <stdio.h>
#include <stdlib.h>

#include "machine_driver.h"
#include "program.h"

#if PROGRAM_CONFIG_HASH != MACHINE_RESET_CONFIG_HASH
#error the program was built for a machine of another configuration
#endif

/* Steps of a start. A larger number lets the machine compute longer without the host. */
#ifndef STEPS_OF_A_START
#define STEPS_OF_A_START 1
#endif

static machine_port port;
static uint8_t *memory;
static uint64_t address, bytes;

/* Read the memory image. Return 0, or 1 after a message. */
static int read_image(const char *name)
{
    FILE *file = name ? fopen(name, "rb") : 0;
    size_t length;
    if (!file) return printf("the memory image %s cannot be opened\n", name ? name : "(IMAGE)"), 1;
    length = fread(memory, 1, PROGRAM_BYTES, file);
    if (fclose(file) || length != PROGRAM_BYTES)
        return printf("the memory image %s has fewer than %lu bytes\n", name, (unsigned long)PROGRAM_BYTES), 1;
    return 0;
}

/* Add the address of the memory to the addresses in commands and descriptors, the lowest byte first. */
static void relocate(void)
{
    uint32_t number, byte;
    for (number = 0; number < PROGRAM_ADDRESSES; ++number) {
        uint8_t *place = memory + program_addresses[number];
        uint64_t value = address;
        for (byte = 0; byte < PROGRAM_ADDRESS_BYTES; ++byte) value += (uint64_t)place[byte] << 8 * byte;
        for (byte = 0; byte < PROGRAM_ADDRESS_BYTES; ++byte) place[byte] = (uint8_t)(value >> 8 * byte);
    }
}

/* Run commands from number `first` on, until the commands end or the register STEP equals `step_end`. */
static int run(uint64_t commands, uint32_t count, uint32_t first, uint32_t step_end)
{
    port.write(port.context, MACHINE_REG_COMMAND_FIRST, first);
    port.write(port.context, MACHINE_REG_STEP_END, step_end);
    machine_start(&port, address + commands, count);
    return machine_wait(&port, 0);
}

/* Return the float at an offset of the memory. */
static double number_at(uint64_t offset)
{
    float value;
    memcpy(&value, memory + offset, sizeof value);
    return (double)value;
}

/* Train all steps, and print the loss of each start's last step. */
static int train(void)
{
    uint32_t done = 0;
    port.write(port.context, MACHINE_REG_STEP, 0);
    port.write(port.context, MACHINE_REG_LOSS_SCALE, PROGRAM_LOSS_SCALE);
    port.write(port.context, MACHINE_REG_LOSS_WINDOW, PROGRAM_LOSS_WINDOW);
    port.write(port.context, MACHINE_REG_LOSS_CLEAN, 0);
    while (done < PROGRAM_STEPS) {
        const uint32_t left = PROGRAM_STEPS - done;
        const uint32_t end = done + (left < STEPS_OF_A_START ? left : STEPS_OF_A_START);
        const int error = run(PROGRAM_TRAINING, PROGRAM_TRAINING_COUNT, done ? PROGRAM_RESUME : 0, end);
        if (error) return printf("step %u, ", (unsigned)port.read(port.context, MACHINE_REG_STEP)), error;
        done = end;
        printf("step %u: loss %.6g\n", (unsigned)(done - 1),
               number_at(PROGRAM_LOSSES + (uint64_t)(done - 1) * PROGRAM_LOSSES_PITCH));
    }
    return 0;
}

/* Print the sum of the numbers of every parameter, and the first result for a held-out sample. */
static void print_results(void)
{
    uint32_t number, row, col;
    for (number = 0; number < PROGRAM_PARAMETERS; ++number) {
        const program_tensor *each = &program_parameters[number];
        double sum = 0;
        for (row = 0; row < each->rows; ++row)
            for (col = 0; col < each->cols; ++col)
                sum += number_at(each->offset + (uint64_t)row * each->pitch + 4 * (uint64_t)col);
        printf("%s: %u x %u, sum %.9g\n", each->name, (unsigned)each->rows, (unsigned)each->cols, sum);
    }
    printf("first held-out sample:");
    for (col = 0; col < program_result.cols; ++col)
        printf(" %.6g", number_at(program_result.offset + 4 * (uint64_t)col));
    printf("\n");
}

/* Write the memory to a file. Return 0, or 1 after a message. */
static int write_memory(const char *name)
{
    FILE *file = fopen(name, "wb");
    size_t length;
    if (!file) return printf("%s cannot be written\n", name), 1;
    length = fwrite(memory, 1, PROGRAM_BYTES, file);
    if (fclose(file) || length != PROGRAM_BYTES) return printf("%s was not written completely\n", name), 1;
    return 0;
}

int main(int argc, char **argv)
{
    const char *image = argc > 1 ? argv[1] : getenv("IMAGE"), *result = argc > 2 ? argv[2] : getenv("RESULT");
    int error = machine_board(&port, &memory, &address, &bytes) ? MACHINE_NO_MACHINE : machine_identify(&port);
    if (error) return printf("%s\n", machine_error_text(error)), 1;
    if (bytes < PROGRAM_BYTES)
        return printf("the program needs %lu bytes of memory, and the board has %lu\n",
                      (unsigned long)PROGRAM_BYTES, (unsigned long)bytes), 1;
    if (read_image(image)) return 1;
    relocate();
    machine_seed(&port, PROGRAM_SEED);
    machine_windows(&port, address, address + PROGRAM_BYTES, address, address + PROGRAM_BYTES);
    machine_clear(&port);
    error = train();
    if (!error) error = run(PROGRAM_EVALUATION, PROGRAM_EVALUATION_COUNT, 0, PROGRAM_STEPS);
    if (error) return printf("%s\n", machine_error_text(error)), 1;
    print_results();
    return result ? write_memory(result) : 0;
}
