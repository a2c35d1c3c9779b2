
/* Entries of the vector unit's tables, which lie side by side, on a beat the first, for `load`. Their rules
   are in the machine's document of programs. An encoder's result is 0, or 1 if a value does not fit. */
@instruction@
@stream@

/* An instruction that writes no register and no stream yet, whose other fields are 0. */
static inline machine_instruction machine_instruction_of(uint32_t op)
{
    machine_instruction made;
    memset(&made, 0, sizeof made);
    made.op = op;
    made.d = MACHINE_NO_REGISTER;
    made.o = MACHINE_NO_OUTPUT;
    return made;
}

