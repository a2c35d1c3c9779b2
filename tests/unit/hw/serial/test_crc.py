"""The checksum in gates, and that of zlib."""

import zlib

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.serial.crc import crc_after
from diastole_sim.spec.serial import CRC_RESIDUE
from support.bench import simulation


class Step(wiring.Component):
    register: In(32)
    octet: In(8)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(crc_after(self.register, self.octet))
        return m


async def test_octets_as_zlib_has_them(rng):
    dut = Step()
    ctx = await simulation(dut)
    for _ in range(100):
        octets = bytes(rng.randrange(256) for _ in range(rng.randrange(9)))
        register = zlib.crc32(octets) ^ 0xFFFFFFFF
        fcs = (register ^ 0xFFFFFFFF).to_bytes(4, "little")
        ctx.set(dut.register, register)
        ctx.set(dut.octet, following := rng.randrange(256))
        got = ctx.get(dut.o)
        assert got == zlib.crc32(octets + bytes([following])) ^ 0xFFFFFFFF
        for octet in fcs:
            ctx.set(dut.register, register)
            ctx.set(dut.octet, octet)
            register = ctx.get(dut.o)
        assert register == CRC_RESIDUE
