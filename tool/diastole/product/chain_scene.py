"""Extend a run of a machine with a vector unit: queue every operation of the unit once."""

from diastole.product.scene import Scene
from diastole_sim.golden.matrix_product import matrix_product
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_table import CHAINED
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import INPUTS, Instruction, MicroOp, Source
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, STREAMS, Descriptor, Kind

_NEGATE = Instruction(op=MicroOp.MOV, a=Source.S0, negate_a=1, o=0)
"""Whole program: output 0 is input 0 with the sign flipped."""
_CONSTANTS = (0x3F800001, 0xC2280000, 0x7F7FFFFF)
_FIRST_CONSTANT = 5
_CHAINS = (*CHAINED, None)
"""Product commands whose results a chain receives, by place in the table of streams. None: a chain
without a product, which reads an earlier result from memory."""


class ChainScene:
    """Queue the commands of the vector unit behind the commands of a scene. Create the object
    before the scene allocates data that the machine writes: the tables to load lie in front of that
    data."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.program = scene.allocate(8)
        self.streams = scene.allocate(len(_CHAINS) * STREAMS * DESCRIPTOR_BYTES)
        self.constants = scene.allocate(4 * len(_CONSTANTS))
        words = b"".join(word.to_bytes(4, "little") for word in _CONSTANTS)
        self.descriptors = [Descriptor()] * (len(_CHAINS) * STREAMS)
        scene.contents.append((self.program, _NEGATE.encode().to_bytes(8, "little")))
        scene.contents.append((self.constants, words))

    def run_all(self) -> None:
        """Queue loads of the tables, a chain at every product, a chain on a tensor in memory, a
        store, and the end of a step."""
        scene = self.scene
        self._load(VectorTable.INSTRUCTIONS, self.program, 0, 1)
        self._load(VectorTable.DESCRIPTORS, self.streams, 0, len(self.descriptors))
        self._load(VectorTable.CONSTANTS, self.constants, _FIRST_CONSTANT, len(_CONSTANTS))
        for place in range(len(_CHAINS)):
            self._chain(place)
        table = b"".join(each.encode() for each in self.descriptors)
        scene.contents.append((self.streams, table))
        copy = scene.allocate(4 * len(_CONSTANTS))
        count = len(_CONSTANTS)
        scene.commands.append(
            Command.store(
                VectorTable.CONSTANTS, address=scene.base + copy, first=_FIRST_CONSTANT, count=count
            )
        )
        scene.stored.append((copy, dict(scene.contents)[self.constants]))
        scene.commands.append(Command.next(0))
        scene.registers["step"] = 1

    def _load(self, table: VectorTable, at: int, first: int, count: int) -> None:
        command = Command.load(table, address=self.scene.base + at, first=first, count=count)
        self.scene.commands.append(command)

    def _chain(self, place: int) -> None:
        scene, opcode = self.scene, _CHAINS[place]
        program = ProgramPlace(first=0, length=1, streams=STREAMS * place)
        source = Descriptor(kind=Kind.PRODUCT)
        if opcode is None:
            at, values = scene.results[0]
            pitch = scene.layout(values).pitch_bytes
            source = Descriptor(kind=Kind.F32, address=scene.base + at, pitch=pitch)
            m, n = values.shape
            scene.commands.append(Command.chain(program, m=m, n=n))
        else:
            operation = CHAINED[opcode]
            (product,) = operation.products
            values = matrix_product(product, scene.tensors, scene.view.numerics).values
            scene.commands.append(
                Command.chained(
                    opcode,
                    program,
                    m=scene.sizes["m"],
                    n=scene.sizes["n"],
                    k=scene.sizes["k"],
                    planes=scene.planes(operation),
                    **scene.operand_addresses(operation),
                )
            )
        pitch = scene.layout(values).pitch_bytes
        at = scene.base + scene.result(-values)
        self.descriptors[STREAMS * place] = source
        self.descriptors[STREAMS * place + INPUTS] = Descriptor(
            kind=Kind.F32, address=at, pitch=pitch
        )
