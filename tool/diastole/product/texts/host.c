/* A host: converts X and W, multiplies them, and checks Y = X W, all through the driver. The product
   must be near that of the floats, and to the bit what the model of the machine makes of them.

   A board provides `machine_board`: how to reach the registers, and memory that both sides see. */
#include <math.h>
#include <stdio.h>

#include "machine_driver.h"
#include "machine_vectors.h"

enum { M = MACHINE_VECTORS_M, N = MACHINE_VECTORS_N, K = MACHINE_VECTORS_K };

static machine_port port;
static uint8_t *memory;
static uint64_t address, bytes, used;

/* The offset of so many bytes of memory, on a beat; in front of them there are the commands. */
static uint64_t allocate(uint64_t size)
{
    const uint64_t at = used;
    used += machine_round_up(size, MACHINE_BEAT_BYTES);
    return at;
}

static float number(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Row by row, each on a beat. */
static void put_floats(uint64_t at, const uint32_t *bits, uint32_t rows, uint32_t cols)
{
    uint32_t row;
    for (row = 0; row < rows; ++row)
        memcpy(memory + at + row * machine_float_pitch(cols), bits + row * cols, 4 * cols);
}

/* The command that converts a tensor of floats; gives the offset of the image of copy 0. A product
   Y = X W reads copy 0 of X and copy 0 or, where W has two, copy 1 of W. */
static uint64_t convert(uint8_t *command, uint32_t tensor_class, const uint32_t *bits,
                        uint32_t rows, uint32_t cols)
{
    const uint32_t copies = machine_class_of(tensor_class).copies;
    const uint32_t planes = machine_class_of(tensor_class).max_planes;
    machine_convert_args args;
    const uint64_t floats = allocate(machine_float_bytes(rows, cols));
    const uint64_t first = allocate(machine_image_bytes(tensor_class, 0, rows, cols, planes));
    const uint64_t second =
        copies < 2 ? 0 : allocate(machine_image_bytes(tensor_class, 1, rows, cols, planes));
    put_floats(floats, bits, rows, cols);
    memset(&args, 0, sizeof args);
    args.class_x = tensor_class;
    args.m = rows;
    args.n = cols;
    args.address_x = address + floats;
    args.address_w = address + first;
    args.address_dy = copies < 2 ? 0 : address + second;
#ifdef MACHINE_WIDTH_WORD
    args.width = planes - 1;
#endif
    args.tag = tensor_class;
    args.step = MACHINE_VECTORS_STEP;
    args.scale = tensor_class == MACHINE_X ? MACHINE_VECTORS_SCALE_X : MACHINE_VECTORS_SCALE_W;
    if (machine_encode_convert(command, &args)) printf("an argument does not fit\n");
    return tensor_class == MACHINE_W && copies > 1 ? second : first;
}

/* Rounding moves an element by less than two units of its significand's last place, at the largest
   magnitude of the tensor, and a sum by less than those of its terms. */
static double bound(double x, double w)
{
    const double off_x = 2 * x * pow(2, 1 - MACHINE_X_PRECISION);
    const double off_w = 2 * w * pow(2, 1 - MACHINE_W_PRECISION);
    const double sum = x * w * (K * pow(2, -MACHINE_SUM_BITS) + 4 * pow(2, -MACHINE_FRACTION_BITS));
    return K * (x * off_w + w * off_x + off_x * off_w + sum);
}

/* How many elements of Y are wrong. */
static int check(uint64_t at)
{
    const double limit = bound(MACHINE_VECTORS_LARGEST_X, MACHINE_VECTORS_LARGEST_W);
    int wrong = 0, row, col, k;
    for (row = 0; row < M; ++row) {
        for (col = 0; col < N; ++col) {
            const uint32_t want = machine_vectors_y[row * N + col];
            uint32_t bits;
            double sum = 0;
            memcpy(&bits, memory + at + row * machine_float_pitch(N) + 4 * col, sizeof bits);
            for (k = 0; k < K; ++k)
                sum += (double)number(machine_vectors_x[row * K + k]) *
                       (double)number(machine_vectors_w[k * N + col]);
            if (bits == want && fabs((double)number(bits) - sum) <= limit) continue;
            printf("Y[%d][%d] is %g (%08x), not %08x; of floats it is %g, at most %g off\n", row,
                   col, (double)number(bits), (unsigned)bits, (unsigned)want, sum, limit);
            ++wrong;
        }
    }
    return wrong;
}

int main(void)
{
    machine_forward_args forward;
    uint64_t x, w, y;
    int error = machine_board(&port, &memory, &address, &bytes) ? MACHINE_NO_MACHINE
                                                                : machine_identify(&port);
    if (!error) {
        used = machine_round_up(3 * MACHINE_COMMAND_BYTES, MACHINE_BEAT_BYTES);
        memset(&forward, 0, sizeof forward);
        x = convert(memory, MACHINE_X, machine_vectors_x, M, K);
        w = convert(memory + MACHINE_COMMAND_BYTES, MACHINE_W, machine_vectors_w, K, N);
        y = allocate(machine_float_bytes(M, N));
        forward.m = M;
        forward.n = N;
        forward.k = K;
        forward.address_x = address + x;
        forward.address_w = address + w;
        forward.out_a = address + y;
#ifdef MACHINE_WIDTH_X_WORD
        forward.width_x = MACHINE_X_MAX_PLANES - 1;
        forward.width_w = MACHINE_W_MAX_PLANES - 1;
#endif
        if (used > bytes || machine_encode_forward(memory + 2 * MACHINE_COMMAND_BYTES, &forward))
            return printf("memory is too small, or an argument does not fit\n"), 1;
        machine_seed(&port, MACHINE_VECTORS_SEED);
        machine_windows(&port, address, address + used, address, address + used);
        machine_clear(&port);
        machine_start(&port, address, 3);
        error = machine_wait(&port, 0);
        if (!error && check(y)) return printf("FAIL\n"), 1;
    }
    if (error) return printf("%s\n", machine_error_text(error)), 1;
    printf("PASS: Y of %d x %d in %llu cycles\n", M, N,
           (unsigned long long)machine_read64(&port, MACHINE_REG_CYCLES));
    return 0;
}
