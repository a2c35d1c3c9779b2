/* A host: converts X and W, multiplies them, and checks Y = X W; then trains W for ten steps, until X W is
   nearer to targets T, and checks the loss of each. All through the driver. The product must be near that of
   the floats, and to the bit what the model of the machine makes of them, and so must every loss.

   A board provides `machine_board`: how to reach the registers, and memory that both sides see. */
#include <math.h>
#include <stdio.h>

#include "machine_driver.h"
#include "machine_vectors.h"

enum { M = MACHINE_VECTORS_M, N = MACHINE_VECTORS_N, K = MACHINE_VECTORS_K };
enum { STEPS = MACHINE_VECTORS_STEPS, MOST_COMMANDS = 4 };

/* A tensor in memory: offsets of its floats and of its images. Where the class has one image, both are
   that: Y = X W reads copy 0 of X and copy 1 of W, dW = X^T dY reads copy 1 of both. */
typedef struct tensor {
    uint32_t tensor_class, rows, cols;
    uint64_t floats, copies[2];
} tensor;

static machine_port port;
static uint8_t *memory;
static uint64_t address, bytes, used;
static int wide; /* an argument of a command did not fit */

/* The offset of so many bytes of memory, on a beat; in front of them there are the commands. */
static uint64_t allocate(uint64_t size)
{
    const uint64_t at = used;
    used += machine_round_up(size, MACHINE_BEAT_BYTES);
    return at;
}

static tensor allocate_tensor(uint32_t tensor_class, uint32_t rows, uint32_t cols)
{
    const uint32_t planes = machine_class_of(tensor_class).max_planes;
    tensor its;
    its.tensor_class = tensor_class;
    its.rows = rows;
    its.cols = cols;
    its.floats = allocate(machine_float_bytes(rows, cols));
    its.copies[0] = allocate(machine_image_bytes(tensor_class, 0, rows, cols, planes));
    its.copies[1] = its.copies[0];
    if (machine_class_of(tensor_class).copies > 1)
        its.copies[1] = allocate(machine_image_bytes(tensor_class, 1, rows, cols, planes));
    return its;
}

static float number(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint8_t *command(uint32_t place)
{
    return memory + place * MACHINE_COMMAND_BYTES;
}

/* An element of floats of so many columns; every row begins on a beat. */
static float get_float(uint64_t at, uint32_t cols, uint32_t row, uint32_t col)
{
    float value;
    memcpy(&value, memory + at + row * machine_float_pitch(cols) + 4 * col, sizeof value);
    return value;
}

static void put_floats(uint64_t at, const uint32_t *values, uint32_t rows, uint32_t cols)
{
    uint32_t row;
    for (row = 0; row < rows; ++row)
        memcpy(memory + at + row * machine_float_pitch(cols), values + row * cols, 4 * cols);
}

/* The command that converts the floats of a tensor; a scale of 0 is measured. */
static void convert(uint32_t place, const tensor *its, uint32_t step, uint32_t scale)
{
    const uint32_t tensor_class = its->tensor_class;
    machine_convert_args args;
    memset(&args, 0, sizeof args);
    args.class_x = tensor_class;
    args.m = its->rows;
    args.n = its->cols;
    args.address_x = address + its->floats;
    args.address_w = address + its->copies[0];
    args.address_dy = address + its->copies[1];
#ifdef MACHINE_WIDTH_WORD
    args.width = machine_class_of(tensor_class).max_planes - 1;
#endif
    args.tag = tensor_class;
    args.step = step;
    args.scale = scale;
    wide |= machine_encode_convert(command(place), &args);
}

/* The command that writes Y = X W at an offset. */
static void multiply(uint32_t place, const tensor *x, const tensor *w, uint64_t y)
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
    wide |= machine_encode_forward(command(place), &forward);
}

/* Does the first so many commands. */
static int run(uint32_t count)
{
    machine_start(&port, address, count);
    return machine_wait(&port, 0);
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
            const double found = (double)get_float(at, N, (uint32_t)row, (uint32_t)col);
            uint32_t bits;
            double sum = 0;
            memcpy(&bits, memory + at + row * machine_float_pitch(N) + 4 * col, sizeof bits);
            for (k = 0; k < K; ++k)
                sum += (double)number(machine_vectors_x[row * K + k]) *
                       (double)number(machine_vectors_w[k * N + col]);
            if (bits == want && fabs(found - sum) <= limit) continue;
            printf("Y[%d][%d] is %g (%08x), not %08x; of floats it is %g, at most %g off\n", row,
                   col, found, (unsigned)bits, (unsigned)want, sum, limit);
            ++wrong;
        }
    }
    return wrong;
}

@train@
/* How many losses are wrong: each must be that of the model, and the last below the first. */
static int check_losses(const double *losses)
{
    int wrong = 0, step;
    for (step = 0; step < STEPS; ++step) {
        const float want = number(machine_vectors_losses[step]);
        if ((float)losses[step] == want) continue;
        printf("the loss of step %d is %.9g, not %.9g\n", step, losses[step], (double)want);
        ++wrong;
    }
    if (losses[STEPS - 1] < losses[0]) return wrong;
    printf("the loss does not fall: it is %g, then %g\n", losses[0], losses[STEPS - 1]);
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
    if (wide) return printf("an argument does not fit\n"), 1;
    if (check_losses(losses)) return printf("FAIL\n"), 1;
    printf("PASS: %d steps of training, loss %g, then %g\n", STEPS, losses[0], losses[STEPS - 1]);
    return 0;
}
