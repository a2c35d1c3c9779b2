/* The host of the page: the host of the product with its own functions, and two entries that take tensors
   from the page. host.c is the product's; its `main` is called as `host_main`. */
#define main host_main
#include "host.c"
#undef main

#include "page_machine.h"

enum { MOST_SIDE = 16, OPERANDS = 3, RESULTS = 3, MOST_REGIONS = 16 };
enum { RUN_FORWARD, RUN_DX, RUN_DW, RUN_BACKWARD };

/* A part of memory. `name` is a number that the page knows. */
typedef struct region {
    uint32_t name, first, end;
} region;
enum { COMMANDS, FLOATS, IMAGES = FLOATS + OPERANDS, Y_RESULT = IMAGES + OPERANDS, DX_RESULT, DW_RESULT,
       TARGETS, SUMS, TABLES, OTHER_W };

static uint32_t operands[OPERANDS][MOST_SIDE * MOST_SIDE]; /* bits of X, W and dY, row by row */
static uint32_t results[RESULTS][MOST_SIDE * MOST_SIDE];   /* bits of Y, dX and dW */
static region regions[MOST_REGIONS];
static uint32_t region_count;
static tensor trained_x, trained_w, trained_dy;
static uint64_t trained_y;

static uint32_t read_register(void *context, uint32_t offset)
{
    (void)context;
    return machine_read(offset);
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    (void)context;
    machine_write(offset, value);
}

static int wait_irq(void *context)
{
    (void)context;
    return machine_wait();
}

int diastole_pico_board(diastole_pico_port *its, uint8_t **data, uint64_t *first, uint64_t *size)
{
    machine_reset();
    *data = machine_memory();
    *first = PAGE_MEMORY_BASE;
    *size = PAGE_MEMORY_BYTES;
    its->context = 0;
    its->read = read_register;
    its->write = write_register;
    its->wait_irq = wait_irq;
    return 0;
}

static void name_region(uint32_t name, uint64_t first, uint64_t end)
{
    const region its = {name, (uint32_t)first, (uint32_t)end};
    if (first != end) regions[region_count++] = its;
}

static tensor place_tensor(uint32_t tensor_class, uint32_t rows, uint32_t cols)
{
    const tensor its = allocate_tensor(tensor_class, rows, cols);
    name_region(FLOATS + tensor_class, its.floats, its.copies[0]);
    name_region(IMAGES + tensor_class, its.copies[0], used);
    return its;
}

static uint64_t place_floats(uint32_t name, uint32_t rows, uint32_t cols)
{
    const uint64_t at = allocate(diastole_pico_float_bytes(rows, cols));
    name_region(name, at, used);
    return at;
}

/* A machine after a reset, with counters at 0 and memory that is empty but for commands. */
static int begin(void)
{
    const int error = diastole_pico_board(&port, &memory, &address, &bytes) ? DIASTOLE_PICO_NO_MACHINE
                                                                            : diastole_pico_identify(&port);
    wide = 0;
    region_count = 0;
    machine_record(0);
    machine_forget();
    memset(memory, 0, PAGE_MEMORY_BYTES);
    used = diastole_pico_round_up(MOST_COMMANDS * DIASTOLE_PICO_COMMAND_BYTES, DIASTOLE_PICO_BEAT_BYTES);
    name_region(COMMANDS, 0, used);
    return error;
}

/* The commands may use the memory that is allocated, with this seed. */
static void open_memory(uint32_t seed)
{
    diastole_pico_seed(&port, seed);
    diastole_pico_windows(&port, address, address + used, address, address + used);
    diastole_pico_clear(&port);
}

static void fetch(uint32_t result, uint64_t at, uint32_t rows, uint32_t cols)
{
    uint32_t row;
    for (row = 0; row < rows; ++row)
        memcpy(results[result] + row * cols, memory + at + row * diastole_pico_float_pitch(cols), 4 * cols);
}

/* The command of a product but forward, which host.c has. */
static void encode(uint32_t operation, uint32_t place, const uint32_t *sizes, const tensor *t,
                   uint64_t dx, uint64_t dw)
{
    const uint64_t x_copy = address + t[0].copies[1], w_copy = address + t[1].copies[0];
    if (operation == RUN_DX) {
        diastole_pico_dx_args args;
        memset(&args, 0, sizeof args);
        args.m = sizes[0], args.n = sizes[1], args.k = sizes[2];
        args.address_w = w_copy;
        args.address_dy = address + t[2].copies[0];
        args.out_a = address + dx;
        wide |= diastole_pico_encode_dx(command(place), &args);
    } else if (operation == RUN_DW) {
        diastole_pico_dw_args args;
        memset(&args, 0, sizeof args);
        args.m = sizes[0], args.n = sizes[1], args.k = sizes[2];
        args.address_x = x_copy;
        args.address_dy = address + t[2].copies[1];
        args.out_a = address + dw;
        wide |= diastole_pico_encode_dw(command(place), &args);
    } else {
        diastole_pico_backward_args args;
        memset(&args, 0, sizeof args);
        args.m = sizes[0], args.n = sizes[1], args.k = sizes[2];
        args.address_x = x_copy;
        args.address_w = w_copy;
        args.address_dy = address + t[2].copies[0];
        args.address_dy_m = address + t[2].copies[1];
        args.out_a = address + dw;
        args.out_b = address + dx;
        wide |= diastole_pico_encode_backward(command(place), &args);
    }
}

static void encode_forward(uint32_t place, const uint32_t *sizes, const tensor *t, uint64_t y)
{
    diastole_pico_forward_args args;
    memset(&args, 0, sizeof args);
    args.m = sizes[0], args.n = sizes[1], args.k = sizes[2];
    args.address_x = address + t[0].copies[0];
    args.address_w = address + t[1].copies[1];
    args.out_a = address + y;
    wide |= diastole_pico_encode_forward(command(place), &args);
}

FOR_PAGE(page_operand) uint32_t *page_operand(uint32_t which) { return operands[which]; }
FOR_PAGE(page_result) uint32_t *page_result(uint32_t which) { return results[which]; }
FOR_PAGE(page_regions) const region *page_regions(void) { return regions; }
FOR_PAGE(page_region_count) uint32_t page_region_count(void) { return region_count; }

/* Converts the operands of an operation, and multiplies. 0, or the code of an error, -1 if an argument of a
   command does not fit. The random bits depend on the seed, the step, and as tag the number of the class. */
FOR_PAGE(page_product)
int page_product(uint32_t operation, uint32_t m, uint32_t n, uint32_t k, uint32_t seed, uint32_t step)
{
    static const uint32_t needed[] = {3, 6, 5, 7}; /* of X, W and dY, a bit each */
    const uint32_t sizes[3] = {m, n, k}, rows[OPERANDS] = {m, k, m}, cols[OPERANDS] = {k, n, n};
    tensor t[OPERANDS];
    uint64_t y, dx, dw;
    uint32_t which, place = 0;
    int error = begin();
    if (error) return error;
    for (which = 0; which < OPERANDS; ++which) t[which] = place_tensor(which, rows[which], cols[which]);
    y = place_floats(Y_RESULT, m, n);
    dx = place_floats(DX_RESULT, m, k);
    dw = place_floats(DW_RESULT, k, n);
    open_memory(seed);
    for (which = 0; which < OPERANDS; ++which) {
        if (!(needed[operation] >> which & 1)) continue;
        put_floats(t[which].floats, operands[which], rows[which], cols[which]);
        convert(place++, &t[which], step, 0);
    }
    if (operation == RUN_FORWARD) encode_forward(place++, sizes, t, y);
    else encode(operation, place++, sizes, t, dx, dw);
    if (wide) return -1;
    machine_record(1);
    error = run(place);
    machine_record(0);
    fetch(0, y, m, n);
    fetch(1, dx, m, k);
    fetch(2, dw, k, n);
    return error;
}

/* The memory and the tables for the ten steps of host.c. */
FOR_PAGE(page_begin_training)
int page_begin_training(void)
{
    int error = begin();
    if (error) return error;
    trained_x = place_tensor(DIASTOLE_PICO_X, M, K);
    trained_w = place_tensor(DIASTOLE_PICO_W, K, N);
    trained_dy = place_tensor(DIASTOLE_PICO_DY, M, N);
    trained_y = place_floats(Y_RESULT, M, N);
    allocate_training();
    name_region(TARGETS, targets, sums);
    name_region(SUMS, sums, programs);
    name_region(TABLES, programs, other_w);
    name_region(OTHER_W, other_w, used);
    put_floats(trained_x.floats, diastole_pico_vectors_x, M, K);
    put_floats(trained_w.floats, diastole_pico_vectors_w, K, N);
    open_memory(DIASTOLE_PICO_VECTORS_SEED);
    machine_record(1);
    convert(0, &trained_x, DIASTOLE_PICO_VECTORS_STEP, DIASTOLE_PICO_VECTORS_SCALE_X);
    error = run(1);
    if (!error) error = begin_training(&trained_w, &trained_dy, trained_y);
    machine_record(0);
    return wide ? -1 : error;
}

/* A step of host.c; the loss goes to result 0. */
FOR_PAGE(page_train)
int page_train(uint32_t step)
{
    double loss = 0;
    float rounded;
    int error;
    machine_record(1);
    error = train(step, &trained_x, &trained_w, &trained_dy, trained_y, &loss);
    machine_record(0);
    rounded = (float)loss;
    memcpy(results[0], &rounded, sizeof rounded);
    return wide ? -1 : error;
}

FOR_PAGE(page_counter) double page_counter(uint32_t offset) { return (double)diastole_pico_read64(&port, offset); }
/* The unchanged program of host.c: its exit status, with its words on the standard output. */
FOR_PAGE(page_host)
int page_host(void)
{
    const int status = host_main();
    fflush(stdout);
    return status;
}

FOR_PAGE(page_error) const char *page_error(int code)
{
    if (*machine_fault()) return machine_fault();
    return code == -1 ? "an argument of a command does not fit" : diastole_pico_error_text(code);
}
