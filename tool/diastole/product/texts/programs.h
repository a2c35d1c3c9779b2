
/* Entries of the tables of the vector unit, in the form that the operation `load` reads: the first entry
   begins on a beat, and the entries lie one after the other. The document of the machine about programs has
   the rules of entries. An encoder returns 0, or 1 if a value does not fit in the field of the value. */
@instruction@
@stream@

/* Return an instruction that writes no register and no stream. All fields except `op`, `d` and `o` are 0. */
static inline machine_instruction machine_instruction_of(uint32_t op)
{
    machine_instruction instruction;
    memset(&instruction, 0, sizeof instruction);
    instruction.op = op;
    instruction.d = MACHINE_NO_REGISTER;
    instruction.o = MACHINE_NO_OUTPUT;
    return instruction;
}

