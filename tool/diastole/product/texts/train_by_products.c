/* Training steps. The machine computes Y = X W and dW = X^T dY. The host computes dY = Y - T, the loss, and
   W = W - rate dW. The loss is the sum of the squares of dY. The product of the rate and dW is exact, because
   the rate is a power of two. */
static uint64_t dw_floats; /* offset of dW */

/* Reserve memory for the data of the training. */
static void allocate_training(void)
{
    dw_floats = allocate(machine_float_bytes(K, N));
}

/* Do nothing: the machine has no tables. */
static int begin_training(const tensor *w, const tensor *dy, uint64_t y)
{
    (void)w, (void)dy, (void)y;
    return 0;
}

/* Write an element of a tensor of floats with `cols` columns. */
static void put_float(uint64_t offset, uint32_t cols, uint32_t row, uint32_t col, float value)
{
    memcpy(memory + offset + row * machine_float_pitch(cols) + 4 * col, &value, sizeof value);
}

/* Write dY = Y - T, and return the loss. */
static double gradient_and_loss(uint64_t y, uint64_t dy)
{
    double loss = 0;
    uint32_t row, col;
    for (row = 0; row < M; ++row) {
        for (col = 0; col < N; ++col) {
            const float target = number(machine_vectors_t[row * N + col]);
            const float difference = get_float(y, N, row, col) - target;
            put_float(dy, N, row, col, difference);
            loss += (double)difference * (double)difference;
        }
    }
    return loss;
}

/* Write W = W - rate dW. */
static void update(uint64_t w, uint64_t dw)
{
    const float rate = number(MACHINE_VECTORS_RATE);
    uint32_t row, col;
    for (row = 0; row < K; ++row)
        for (col = 0; col < N; ++col)
            put_float(w, N, row, col,
                      get_float(w, N, row, col) - rate * get_float(dw, N, row, col));
}

/* Run a step of training, and compute the loss. */
static int train(uint32_t step, const tensor *x, const tensor *w, const tensor *dy, uint64_t y,
                 double *loss)
{
    machine_dw_args dw;
    int error;
    convert(0, w, step, 0);
    multiply(1, x, w, y);
    error = run(2);
    if (error) return error;
    *loss = gradient_and_loss(y, dy->floats);
    memset(&dw, 0, sizeof dw);
    dw.m = M;
    dw.n = N;
    dw.k = K;
    dw.address_x = address + x->copies[1];
    dw.address_dy = address + dy->copies[1];
    dw.out_a = address + dw_floats;
#ifdef MACHINE_WIDTH_X_WORD
    dw.width_x = MACHINE_X_MAX_PLANES - 1;
    dw.width_dy = MACHINE_DY_MAX_PLANES - 1;
#endif
    convert(0, dy, step, 0);
    wide |= machine_encode_dw(command(1), &dw);
    error = run(2);
    if (!error) update(w->floats, dw_floats);
    return error;
}

