/* Training steps that the machine computes completely. The vector unit runs a program on Y = X W: the program
   computes dY = Y - T and the sum of the squares of every row of dY. The loss is the sum of the sums of all
   rows. A second program computes W - rate dW from dW = X^T dY. The outputs of a command must not overlap
   with the inputs of the command. Two areas of memory therefore hold W in alternate steps. */
enum { PRODUCTS_OF_STEP = 2, MOST_ENTRIES = 32, SETS = 3 };

/* Offsets in memory. Odd steps read W at `other_w`. */
static uint64_t targets, sums, programs, streams, constants, other_w;
static uint32_t lengths[PRODUCTS_OF_STEP]; /* of the programs; the second follows the first */

/* Reserve memory for the data of the training. */
static void allocate_training(void)
{
    targets = allocate(machine_float_bytes(M, N));
    sums = allocate(4 * M);
    programs = allocate(MOST_ENTRIES * MACHINE_INSTRUCTION_BYTES);
    streams = allocate(SETS * MACHINE_CHAIN_STREAMS * MACHINE_STREAM_BYTES);
    constants = allocate(4);
    other_w = allocate(machine_float_bytes(K, N));
}

/* Write an instruction to a slot of the programs. */
static void put_instruction(uint32_t slot, const machine_instruction *instruction)
{
    wide |= machine_encode_instruction(memory + programs + slot * MACHINE_INSTRUCTION_BYTES, instruction);
}

/* Write the first program. Output stream 0 is dY = Y - T. Output stream 1 is the sum of the squares of every
   row. */
static void put_gradient_program(void)
{
    machine_instruction add = machine_instruction_of(MACHINE_MICRO_ADD);
    machine_instruction square = machine_instruction_of(MACHINE_MICRO_MAD);
    machine_instruction move = machine_instruction_of(MACHINE_MICRO_MOV);
    uint32_t amount, length = 0;
    add.a = MACHINE_FROM_S0; /* Y */
    add.c = MACHINE_FROM_S1; /* T */
    add.negate_c = 1;
    add.d = 0;
    add.o = 0;
    put_instruction(length++, &add);
    square.a = square.b = 0; /* r1 = r0 r0 + r1; r1 counts as 0 in the first block of every row of blocks */
    square.c = square.d = 1;
    square.fresh = square.keep = 1;
    put_instruction(length++, &square);
    /* Add lanes of r1 in pairs until every lane has the sum of all lanes: permute lanes of c, then add. */
    for (amount = 1; 1u << amount <= MACHINE_BLOCK; ++amount) {
        add = machine_instruction_of(MACHINE_MICRO_ADD);
        add.a = add.c = add.d = 1;
        add.turn_lanes = amount;
        add.when = MACHINE_WHEN_LAST;
        put_instruction(length++, &add);
    }
    move.a = 1;
    move.o = 1;
    move.when = MACHINE_WHEN_LAST;
    put_instruction(length++, &move);
    lengths[0] = length;
}

/* Write the second program. Output stream 0 is W - rate dW. */
static void put_update_program(void)
{
    machine_instruction update = machine_instruction_of(MACHINE_MICRO_MAD);
    update.a = MACHINE_FROM_S0; /* dW */
    update.b = MACHINE_FROM_CONSTANT;
    update.negate_b = 1;
    update.k = 0; /* constant 0: the rate */
    update.c = MACHINE_FROM_S1; /* W */
    update.o = 0;
    put_instruction(lengths[0], &update);
    lengths[1] = 1;
}

/* Write the descriptor of a stream. A set has the 8 streams of a chain. `offset` is the offset of the data of
   the stream. Streams of the kind F32 have rows of N floats. */
static void put_stream(uint32_t set, uint32_t slot, uint32_t kind, uint64_t offset)
{
    machine_stream stream;
    memset(&stream, 0, sizeof stream);
    stream.kind = kind;
    if (kind != MACHINE_KIND_PRODUCT) stream.address = address + offset;
    if (kind == MACHINE_KIND_F32) stream.pitch = (uint32_t)machine_float_pitch(N);
    wide |= machine_encode_stream(
        memory + streams + (set * MACHINE_CHAIN_STREAMS + slot) * MACHINE_STREAM_BYTES, &stream);
}

/* Write the command that loads `count` entries into a table, from the offset `source` on. */
static void load(uint32_t slot, uint32_t table, uint64_t source, uint32_t count)
{
    machine_load_args args;
    memset(&args, 0, sizeof args);
    args.which = table;
    args.address_x = address + source;
    args.count = count;
    wide |= machine_encode_load(command(slot), &args);
}

/* Fill the tables of the machine. Set 0 has the streams of Y. Set 1 has the streams of dW in even steps, and
   set 2 has the streams of dW in odd steps. */
static int begin_training(const tensor *w, const tensor *dy, uint64_t y)
{
    const uint64_t weights[2] = {w->floats, other_w};
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
        put_stream(1 + odd, 1, MACHINE_KIND_F32, weights[odd]);
        put_stream(1 + odd, MACHINE_STREAM_INPUTS, MACHINE_KIND_F32, weights[1 - odd]);
    }
    load(0, MACHINE_TABLE_INSTRUCTIONS, programs, lengths[0] + lengths[1]);
    load(1, MACHINE_TABLE_CONSTANTS, constants, 1);
    load(2, MACHINE_TABLE_DESCRIPTORS, streams, SETS * MACHINE_CHAIN_STREAMS);
    return run(3);
}

/* Run a step of training, and compute the loss from the sums of the rows. */
static int train(uint32_t step, const tensor *x, const tensor *w, const tensor *dy, uint64_t y,
                 double *loss)
{
    machine_forward_chain_args forward;
    machine_dw_chain_args dw;
    tensor weights = *w;
    uint32_t row;
    int error;
    (void)y;
    if (step % 2) weights.floats = other_w;
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
    convert(0, &weights, step, 0);
    wide |= machine_encode_forward_chain(command(1), &forward);
    convert(2, dy, step, 0);
    wide |= machine_encode_dw_chain(command(3), &dw);
    error = run(4);
    *loss = 0;
    for (row = 0; row < M && !error; ++row) *loss += (double)get_float(sums, M, 0, row);
    return error;
}

