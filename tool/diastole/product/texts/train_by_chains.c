/* A step of training, all of it by the machine. Y = X W goes to a program that makes dY = Y - T and, of every
   row, the sum of its squares, of which the loss is the sum; dW = X^T dY to one that makes W - rate dW. What
   a command writes must not overlap with what it reads: so there are two places for W, in turn. */
enum { PRODUCTS_OF_STEP = 2, MOST_ENTRIES = 32, SETS = 3 };

static uint64_t targets, sums, programs, streams, constants, other_w;
static uint32_t lengths[PRODUCTS_OF_STEP]; /* of both programs, which lie one behind the other */

static void allocate_training(void)
{
    targets = allocate(machine_float_bytes(M, N));
    sums = allocate(4 * M);
    programs = allocate(MOST_ENTRIES * MACHINE_INSTRUCTION_BYTES);
    streams = allocate(SETS * MACHINE_CHAIN_STREAMS * MACHINE_STREAM_BYTES);
    constants = allocate(4);
    other_w = allocate(machine_float_bytes(K, N));
}

static void put_instruction(uint32_t place, const machine_instruction *its)
{
    uint8_t *at = memory + programs + place * MACHINE_INSTRUCTION_BYTES;
    wide |= machine_encode_instruction(at, its);
}

/* dY = Y - T to output stream 0; the sum of the squares of each row to output stream 1. */
static void put_gradient_program(void)
{
    machine_instruction its = machine_instruction_of(MACHINE_MICRO_ADD);
    uint32_t turn, length = 0;
    its.a = MACHINE_FROM_S0; /* Y */
    its.c = MACHINE_FROM_S1; /* T */
    its.negate_c = 1;
    its.d = 0;
    its.o = 0;
    put_instruction(length++, &its);
    its = machine_instruction_of(MACHINE_MICRO_MAD); /* r1 = r0 r0 + r1, begun anew in each row of blocks */
    its.a = its.b = 0;
    its.c = its.d = 1;
    its.fresh = its.keep = 1;
    put_instruction(length++, &its);
    for (turn = 1; 1u << turn <= MACHINE_BLOCK; ++turn) { /* r1 = the sum of all lanes of r1 */
        its = machine_instruction_of(MACHINE_MICRO_ADD);
        its.a = its.c = its.d = 1;
        its.turn_lanes = turn;
        its.when = MACHINE_WHEN_LAST;
        put_instruction(length++, &its);
    }
    its = machine_instruction_of(MACHINE_MICRO_MOV);
    its.a = 1;
    its.o = 1;
    its.when = MACHINE_WHEN_LAST;
    put_instruction(length++, &its);
    lengths[0] = length;
}

/* W - rate dW to output stream 0. */
static void put_update_program(void)
{
    machine_instruction its = machine_instruction_of(MACHINE_MICRO_MAD);
    its.a = MACHINE_FROM_S0; /* dW */
    its.b = MACHINE_FROM_CONSTANT;
    its.negate_b = 1;
    its.k = 0;
    its.c = MACHINE_FROM_S1; /* W */
    its.o = 0;
    put_instruction(lengths[0], &its);
    lengths[1] = 1;
}

/* A stream of a set of eight; floats in rows of N columns, if it is no other kind. */
static void put_stream(uint32_t set, uint32_t slot, uint32_t kind, uint64_t at)
{
    machine_stream its;
    memset(&its, 0, sizeof its);
    its.kind = kind;
    if (kind != MACHINE_KIND_PRODUCT) its.address = address + at;
    if (kind == MACHINE_KIND_F32) its.pitch = (uint32_t)machine_float_pitch(N);
    wide |= machine_encode_stream(
        memory + streams + (set * MACHINE_CHAIN_STREAMS + slot) * MACHINE_STREAM_BYTES, &its);
}

static void load(uint32_t place, uint32_t table, uint64_t from, uint32_t count)
{
    machine_load_args args;
    memset(&args, 0, sizeof args);
    args.which = table;
    args.address_x = address + from;
    args.count = count;
    wide |= machine_encode_load(command(place), &args);
}

/* Fills the tables of the machine. Set 0 is of Y; sets 1 and 2 are of dW, in even steps and in odd ones. */
static int begin_training(const tensor *w, const tensor *dy, uint64_t y)
{
    const uint64_t places[2] = {w->floats, other_w};
    const uint32_t rate = MACHINE_VECTORS_RATE;
    uint32_t odd;
    (void)y;
    put_floats(targets, machine_vectors_t, M, N);
    memcpy(memory + constants, &rate, sizeof rate);
    put_gradient_program();
    put_update_program();
    memset(memory + streams, 0, SETS * MACHINE_CHAIN_STREAMS * MACHINE_STREAM_BYTES);
    put_stream(0, 0, MACHINE_KIND_PRODUCT, 0);
    put_stream(0, 1, MACHINE_KIND_F32, targets);
    put_stream(0, MACHINE_STREAM_INPUTS, MACHINE_KIND_F32, dy->floats);
    put_stream(0, MACHINE_STREAM_INPUTS + 1, MACHINE_KIND_ROW, sums);
    for (odd = 0; odd < 2; ++odd) {
        put_stream(1 + odd, 0, MACHINE_KIND_PRODUCT, 0);
        put_stream(1 + odd, 1, MACHINE_KIND_F32, places[odd]);
        put_stream(1 + odd, MACHINE_STREAM_INPUTS, MACHINE_KIND_F32, places[1 - odd]);
    }
    load(0, MACHINE_TABLE_INSTRUCTIONS, programs, lengths[0] + lengths[1]);
    load(1, MACHINE_TABLE_CONSTANTS, constants, 1);
    load(2, MACHINE_TABLE_DESCRIPTORS, streams, SETS * MACHINE_CHAIN_STREAMS);
    return run(3);
}

static int train(uint32_t step, const tensor *x, const tensor *w, const tensor *dy, uint64_t y,
                 double *loss)
{
    machine_forward_chain_args forward;
    machine_dw_chain_args dw;
    tensor now = *w;
    uint32_t row;
    int error;
    (void)y;
    if (step % 2) now.floats = other_w;
    memset(&forward, 0, sizeof forward);
    forward.m = M;
    forward.n = N;
    forward.k = K;
    forward.address_x = address + x->copies[0];
    forward.address_w = address + w->copies[1];
    forward.program_length = lengths[0];
    memset(&dw, 0, sizeof dw);
    dw.m = M;
    dw.n = N;
    dw.k = K;
    dw.address_x = address + x->copies[1];
    dw.address_dy = address + dy->copies[1];
    dw.program = lengths[0];
    dw.program_length = lengths[1];
    dw.streams = (1 + step % 2) * MACHINE_CHAIN_STREAMS;
#ifdef MACHINE_WIDTH_X_WORD
    forward.width_x = dw.width_x = MACHINE_X_MAX_PLANES - 1;
    forward.width_w = MACHINE_W_MAX_PLANES - 1;
    dw.width_dy = MACHINE_DY_MAX_PLANES - 1;
#endif
    convert(0, &now, step, 0);
    wide |= machine_encode_forward_chain(command(1), &forward);
    convert(2, dy, step, 0);
    wide |= machine_encode_dw_chain(command(3), &dw);
    error = run(4);
    *loss = 0;
    for (row = 0; row < M && !error; ++row) *loss += (double)get_float(sums, M, 0, row);
    return error;
}

