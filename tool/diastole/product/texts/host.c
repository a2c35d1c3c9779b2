/* Host program. The program converts X and W, computes Y = X W, and checks Y. Then the program trains W for
   ten steps, so that X W comes nearer to targets T, and checks the loss of every step. All accesses to the
   machine use the driver. Y must be near the product of the floats. Y and every loss must equal the results
   of the model of the machine, bit for bit.

   A board provides `machine_board`, which gives access to the registers and to shared memory. */
#include <math.h>
#include <stdio.h>

#include "machine_driver.h"
#include "machine_vectors.h"

enum { M = MACHINE_VECTORS_M, N = MACHINE_VECTORS_N, K = MACHINE_VECTORS_K };
enum { STEPS = MACHINE_VECTORS_STEPS, MOST_COMMANDS = 4 };

/* Tensor in memory: offsets of the floats and of the images. Y = X W reads copy 0 of X and copy 1 of W, and
   dW = X^T dY reads copy 1 of X and of dY. If the class has a single image, `copies` has the offset of the
   image twice. */
typedef struct tensor {
    uint32_t tensor_class, rows, cols;
    uint64_t floats, copies[2];
} tensor;

static machine_port port;
static uint8_t *memory;
static uint64_t address, bytes, used;
static int wide; /* 1 if an argument of a command did not fit */

/* Reserve memory, and return the offset of the memory, a multiple of a beat. Memory begins with space for the
   commands. */
static uint64_t allocate(uint64_t size)
{
    const uint64_t offset = used;
    used += machine_round_up(size, MACHINE_BEAT_BYTES);
    return offset;
}

/* Reserve memory for the floats and the images of a tensor. */
static tensor allocate_tensor(uint32_t tensor_class, uint32_t rows, uint32_t cols)
{
    const uint32_t planes = machine_class_of(tensor_class).max_planes;
    tensor reserved;
    reserved.tensor_class = tensor_class;
    reserved.rows = rows;
    reserved.cols = cols;
    reserved.floats = allocate(machine_float_bytes(rows, cols));
    reserved.copies[0] = allocate(machine_image_bytes(tensor_class, 0, rows, cols, planes));
    reserved.copies[1] = reserved.copies[0];
    if (machine_class_of(tensor_class).copies > 1)
        reserved.copies[1] = allocate(machine_image_bytes(tensor_class, 1, rows, cols, planes));
    return reserved;
}

/* Return the float with these bits. */
static float number(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return the place of the command with this number. */
static uint8_t *command(uint32_t slot)
{
    return memory + slot * MACHINE_COMMAND_BYTES;
}

/* Return an element of a tensor of floats with `cols` columns. Every row begins on a beat. */
static float get_float(uint64_t offset, uint32_t cols, uint32_t row, uint32_t col)
{
    float value;
    memcpy(&value, memory + offset + row * machine_float_pitch(cols) + 4 * col, sizeof value);
    return value;
}

/* Write a tensor of floats from the bits of the floats, row by row. */
static void put_floats(uint64_t offset, const uint32_t *values, uint32_t rows, uint32_t cols)
{
    uint32_t row;
    for (row = 0; row < rows; ++row)
        memcpy(memory + offset + row * machine_float_pitch(cols), values + row * cols, 4 * cols);
}

/* Write the command that converts the floats of a tensor. With scale 0, the machine measures the scale. */
static void convert(uint32_t slot, const tensor *source, uint32_t step, uint32_t scale)
{
    const uint32_t tensor_class = source->tensor_class;
    machine_convert_args args;
    memset(&args, 0, sizeof args);
    args.class_x = tensor_class;
    args.m = source->rows;
    args.n = source->cols;
    args.address_x = address + source->floats;
    args.address_w = address + source->copies[0];
    args.address_dy = address + source->copies[1];
#ifdef MACHINE_WIDTH_WORD
    args.width = machine_class_of(tensor_class).max_planes - 1;
#endif
    args.tag = tensor_class;
    args.step = step;
    args.scale = scale;
    wide |= machine_encode_convert(command(slot), &args);
}

/* Write the command that computes Y = X W. `y` is the offset of the floats of Y. */
static void multiply(uint32_t slot, const tensor *x, const tensor *w, uint64_t y)
{
    machine_forward_args forward;
    memset(&forward, 0, sizeof forward);
    forward.m = M;
    forward.n = N;
    forward.k = K;
    forward.address_x = address + x->copies[0];
    forward.address_w = address + w->copies[1];
    forward.out_a = address + y;
#ifdef MACHINE_WIDTH_X_WORD
    forward.width_x = MACHINE_X_MAX_PLANES - 1;
    forward.width_w = MACHINE_W_MAX_PLANES - 1;
#endif
    wide |= machine_encode_forward(command(slot), &forward);
}

/* Run the first `count` commands, and wait until the commands are done. */
static int run(uint32_t count)
{
    machine_start(&port, address, count);
    return machine_wait(&port, 0);
}

/* Return a limit for the error of an element of Y, for the largest magnitudes x and w. Conversion changes an
   element by less than two units of the last place of a significand at the largest magnitude of the tensor.
   `sum` limits the error of the accumulators for one term. */
static double bound(double x, double w)
{
    const double error_x = 2 * x * pow(2, 1 - MACHINE_X_PRECISION);
    const double error_w = 2 * w * pow(2, 1 - MACHINE_W_PRECISION);
    const double sum = x * w * (K * pow(2, -MACHINE_SUM_BITS) + 4 * pow(2, -MACHINE_FRACTION_BITS));
    return K * (x * error_w + w * error_x + error_x * error_w + sum);
}

/* Return the number of wrong elements of Y. `y` is the offset of the floats of Y. */
static int check(uint64_t y)
{
    const double limit = bound(MACHINE_VECTORS_LARGEST_X, MACHINE_VECTORS_LARGEST_W);
    int wrong = 0, row, col, k;
    for (row = 0; row < M; ++row) {
        for (col = 0; col < N; ++col) {
            const uint32_t expected = machine_vectors_y[row * N + col];
            const double value = (double)get_float(y, N, (uint32_t)row, (uint32_t)col);
            uint32_t bits;
            double sum = 0;
            memcpy(&bits, memory + y + row * machine_float_pitch(N) + 4 * col, sizeof bits);
            for (k = 0; k < K; ++k)
                sum += (double)number(machine_vectors_x[row * K + k]) *
                       (double)number(machine_vectors_w[k * N + col]);
            if (bits == expected && fabs(value - sum) <= limit) continue;
            printf("Y[%d][%d] is %g (%08x), not %08x; the product of the floats is %g, and the limit of the "
                   "error is %g\n", row, col, value, (unsigned)bits, (unsigned)expected, sum, limit);
            ++wrong;
        }
    }
    return wrong;
}

@train@
/* Return the number of wrong losses. Every loss must equal the loss of the model, and the last loss must be
   below the first loss. */
static int check_losses(const double *losses)
{
    int wrong = 0, step;
    for (step = 0; step < STEPS; ++step) {
        const float expected = number(machine_vectors_losses[step]);
        if ((float)losses[step] == expected) continue;
        printf("the loss of step %d is %.9g, not %.9g\n", step, losses[step], (double)expected);
        ++wrong;
    }
    if (losses[STEPS - 1] < losses[0]) return wrong;
    printf("the loss does not fall: the first loss is %g, the last loss is %g\n", losses[0],
           losses[STEPS - 1]);
    return wrong + 1;
}

int main(void)
{
    double losses[STEPS];
    tensor x, w, dy;
    uint64_t y, end;
    uint32_t step;
    int error = machine_board(&port, &memory, &address, &bytes) ? MACHINE_NO_MACHINE
                                                                : machine_identify(&port);
    if (error) return printf("%s\n", machine_error_text(error)), 1;
    used = machine_round_up(MOST_COMMANDS * MACHINE_COMMAND_BYTES, MACHINE_BEAT_BYTES);
    x = allocate_tensor(MACHINE_X, M, K);
    w = allocate_tensor(MACHINE_W, K, N);
    dy = allocate_tensor(MACHINE_DY, M, N);
    y = allocate(machine_float_bytes(M, N));
    allocate_training();
    end = used;
    if (end > bytes) return printf("memory is too small: %llu bytes are needed\n",
                                   (unsigned long long)end), 1;
    put_floats(x.floats, machine_vectors_x, M, K);
    put_floats(w.floats, machine_vectors_w, K, N);
    convert(0, &x, MACHINE_VECTORS_STEP, MACHINE_VECTORS_SCALE_X);
    convert(1, &w, MACHINE_VECTORS_STEP, MACHINE_VECTORS_SCALE_W);
    multiply(2, &x, &w, y);
    machine_seed(&port, MACHINE_VECTORS_SEED);
    machine_windows(&port, address, address + end, address, address + end);
    machine_clear(&port);
    error = run(3);
    if (!error && check(y)) return printf("FAIL\n"), 1;
    if (!error)
        printf("PASS: Y of %d x %d in %llu cycles\n", M, N,
               (unsigned long long)machine_read64(&port, MACHINE_REG_CYCLES));
    if (!error) error = begin_training(&w, &dy, y);
    for (step = 0; step < STEPS && !error; ++step)
        error = train(step, &x, &w, &dy, y, &losses[step]);
    if (error) return printf("%s\n", machine_error_text(error)), 1;
    if (wide) return printf("an argument of a command does not fit\n"), 1;
    if (check_losses(losses)) return printf("FAIL\n"), 1;
    printf("PASS: %d steps of training, loss %g, then %g\n", STEPS, losses[0], losses[STEPS - 1]);
    return 0;
}
