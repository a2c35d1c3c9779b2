"""Write headers, exponents, elements and maxima of the images: the last step of the converter."""

from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from diastole_hw.bus.services import request_layout, write_beat_layout
from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.image.copy_port import image_group_layout
from diastole_hw.convert.image.image_maxima import MAX_COL_BLOCKS, MAX_STORED_ROWS, ImageMaxima
from diastole_hw.convert.image.pack import packed_layout
from diastole_hw.convert.image.pack_bytes import PackBytes
from diastole_hw.convert.image.plane_repeater import PlaneRepeater
from diastole_hw.convert.tile_order import Numbers, cut_layout, make_tile_order
from diastole_hw.data_registers import data_register
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.transfer.address import AddressGenerator
from diastole_hw.transfer.times import times
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.formats import NVFP4
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes

_GROUPS_AHEAD = 4  # groups begun in the lanes, and not yet written


class MaximaPlaces(NamedTuple):
    """Hold the address of the next beat of maxima, whether the address is known, whether the beat
    is the last, and the ``copy`` of the beat.

    ``copies``: for every copy, the :class:`AddressGenerator` of the beginning of the maxima, and
    the bytes still to be written, at first all bytes.
    """

    address: Value
    valid: Value
    last: Value
    copy: Value
    copies: tuple


class ImageWriter(wiring.Component):
    """Write the groups of a tensor's images as the groups come, and the maxima.

    A group is a single request: its exponent beats, then its element beats. Beats of maxima are
    written one by one, as they fill. Headers come first. All write strobes are set: padding is
    zeros. If images have planes, a group is written once for every plane, with the exponents
    repeated and the elements of the plane. A beat of maxima is also written once for every plane.

    Timing: 1 cycle per group and plane besides the beats, and 2 per beat of maxima and plane, and
    per header. ``request.valid`` and ``o.valid`` do not depend on their ``ready``.

    Parameters
    ----------
    sizes : ConverterSizes
    max_col_blocks, stored_rows : int
        As in :class:`ImageMaxima`.

    Members
    -------
    start : In(1)
        Begin a tensor.
    cls : In(2)
    rows, cols : In(24)
    destination, destination_t : In(40)
    scale : In(8)
        As in :class:`diastole_hw.convert.converter.Converter`; must hold until ``done``.
    cut : In(:func:`diastole_hw.convert.tile_order.cut_layout`)
        Patches of the tensor; must hold as ``scale``. Present with ``stored_rows``.
    group : In(stream of :func:`image_group_layout`)
        Every group, before its bytes, as input of :class:`ImageMaxima`.
    planes : In(2)
        Number of planes of an image, less 1; must hold as ``scale``. Only if a class has the format
        ``fast``.
    exponents : In(stream of {"byte": unsigned(8), "last": 1})
    elements : In(stream of :func:`packed_layout`)
        Bytes of the exponent fields of groups, and beats of the element fields. Element beats come
        up to the last beat with data; the unit writes the remaining beats as zeros.
    request : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
    o : Out(stream of {"data": unsigned(data_width), "strb": unsigned(data_width // 8)})
    done : Out(1)
        A pulse when the last beat is accepted.
    """

    def __init__(self, sizes: ConverterSizes, *, max_col_blocks: int, stored_rows: int = 0):
        require_int("max_col_blocks", max_col_blocks, 1, MAX_COL_BLOCKS)
        require_int("stored_rows", stored_rows, 0, MAX_STORED_ROWS)
        self.max_col_blocks, self.stored_rows = max_col_blocks, stored_rows
        self.sizes = sizes
        byte = data.StructLayout({"byte": unsigned(8), "last": 1})
        elements = packed_layout(sizes.data_width, self.sizes.max_planes)
        super().__init__(
            {"planes": In(2 if sizes.planar else 0)}
            | ({"cut": In(cut_layout())} if stored_rows else {})
            | {
                "start": In(1),
                "cls": In(2),
                "rows": In(EXTENT_BITS),
                "cols": In(EXTENT_BITS),
                "destination": In(ADDRESS_BITS),
                "destination_t": In(ADDRESS_BITS),
                "scale": In(8),
                "group": In(stream.Signature(image_group_layout())),
                "exponents": In(stream.Signature(byte)),
                "elements": In(stream.Signature(elements)),
                "request": Out(stream.Signature(request_layout())),
                "o": Out(stream.Signature(write_beat_layout(sizes.data_width))),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        maxima = ImageMaxima(
            self.sizes, max_col_blocks=self.max_col_blocks, stored_rows=self.stored_rows
        )
        entries = self.sizes.by_class(self.sizes.exponent_entries)
        packer = PackBytes(data_width=self.sizes.data_width, most=max(entries))
        groups = StreamFifo(shape=image_group_layout(), depth=_GROUPS_AHEAD)
        of_maxima = StreamFifo(shape=image_group_layout(), depth=_GROUPS_AHEAD)
        m.submodules.maxima = maxima
        m.submodules.packer = packer
        m.submodules.groups = groups
        m.submodules.of_maxima = of_maxima
        for fifo, other in ((groups, of_maxima), (of_maxima, groups)):
            m.d.comb += fifo.i.payload.eq(self.group.payload)
            m.d.comb += fifo.i.valid.eq(self.group.valid & other.i.ready)
        m.d.comb += self.group.ready.eq(groups.i.ready & of_maxima.i.ready)
        connect(m, of_maxima.o, maxima.group)
        connect(m, flipped(self.exponents), maxima.i)
        m.d.comb += [
            maxima.start.eq(self.start),
            *([maxima.cut.eq(self.cut)] if self.stored_rows else []),
            maxima.cls.eq(self.cls),
            maxima.cols.eq(self.cols),
            packer.i.valid.eq(maxima.o.valid),
            packer.i.p.byte.eq(maxima.o.p.byte),
            packer.i.p.last.eq(maxima.o.p.last),
            maxima.o.ready.eq(packer.i.ready),
        ]
        streams = groups.o, packer.o, self.elements
        if self.sizes.planar and self.sizes.max_planes > 1:
            streams = self._planes(m, *streams)
        self._sequence(m, *streams, maxima.beats)
        return m

    def _planes(self, m, groups, exponents, elements):
        """Return the streams with every group repeated for every plane."""
        sizes = self.sizes
        m.submodules.planes = repeater = PlaneRepeater(
            data_width=self.sizes.data_width,
            planes=sizes.max_planes,
            exponent_beats=max(sizes.by_class(sizes.exponent_beats)),
            element_beats=max(sizes.by_class(sizes.element_beats)),
        )
        m.d.comb += repeater.planes_less_1.eq(self.planes)
        connect(m, groups, repeater.group)
        connect(m, exponents, repeater.exponents)
        connect(m, flipped(elements), repeater.elements)
        return repeater.group_o, repeater.exponents_o, repeater.elements_o

    def _of_plane(self, m, plane, copy, lengths, name):
        """Return the bytes from plane 0 of an image to plane ``plane``. ``lengths``: bytes of a
        plane, by copy."""
        offset = Signal(ADDRESS_BITS, name=name)
        length = Mux(copy, lengths[-1], lengths[0])
        m.d.comb += offset.eq(length * plane)
        return offset

    def _maximum_planes(self, m, place, lengths, lengths_valid, written):
        """Return the place of the next beat of maxima for the current plane, and whether the plane
        is the last. ``written``: the beat is written."""
        plane = Signal(2, name="maximum_plane")
        ends = plane == self.planes
        with m.If(written):
            m.d.sync += plane.eq(Mux(ends, 0, plane + 1))
        offset = self._of_plane(m, plane, place.copy, lengths, "maximum_offset")
        return place._replace(
            address=place.address + offset, valid=place.valid & lengths_valid
        ), ends

    def _lengths(self, m, maxima):
        """Return the bytes of a plane of every copy, and whether the bytes are known. An image ends
        with its maxima."""
        valid = []
        lengths = []
        starts = (self.destination, self.destination_t)
        for copy, (locate, bytes_) in enumerate(maxima.copies):
            length = data_register(ADDRESS_BITS, name=f"length{copy}")
            length_valid = Signal(name=f"length{copy}_valid")
            with m.If(~length_valid & locate.ready):
                m.d.sync += [length.eq(locate.address + bytes_ - starts[copy]), length_valid.eq(1)]
            with m.If(self.start):
                m.d.sync += length_valid.eq(0)
            valid.append(length_valid)
            lengths.append(length)
        return lengths, Cat(valid).all()

    def _sequence(self, m, groups, exponents, elements, maxima):
        sizes = self.sizes
        exponent_beats = by_class(
            m, self.cls, sizes.by_class(sizes.exponent_beats), "exponent_beats"
        )
        element_beats = by_class(m, self.cls, sizes.by_class(sizes.element_beats), "element_beats")
        address = Signal(ADDRESS_BITS)
        group_done = Signal()
        maximum_done = Signal()
        maximum_place = self._locate_maxima(m, maximum_done)
        # Places and flags for a single plane, if images have several.
        maximum_written, group_ends, group_offset = maximum_done, group_done, None
        maximum_ends = group_valid = Const(1, 1)
        if sizes.planar:
            maximum_written = Signal()
            lengths, lengths_valid = self._lengths(m, maximum_place)
            maximum_place, maximum_ends = self._maximum_planes(
                m, maximum_place, lengths, lengths_valid, maximum_written
            )
            m.d.comb += maximum_done.eq(maximum_written & maximum_ends)
            if sizes.max_planes > 1:
                plane = groups.p.plane
                group_ends = group_done & groups.p.last_plane
                group_valid = lengths_valid | (plane == 0)
                group_offset = self._of_plane(m, plane, groups.p.copy, lengths, "group_offset")
        first = self._locate_groups(m, groups, group_ends)
        m.d.comb += address.eq(first if group_offset is None else first + group_offset)
        maximum_address, located, last_maximum = (
            maximum_place.address,
            maximum_place.valid,
            maximum_place.last,
        )
        m.d.comb += self.o.p.strb.eq(~0)
        most = max(*sizes.by_class(sizes.exponent_beats), *sizes.by_class(sizes.element_beats))
        count = data_register(range(most))
        second = Signal()  # the header of the second copy
        padding = Signal()  # write zeros up to the end of the group
        with m.FSM():
            with m.State("header request" if sizes.header else "idle"):  # wait for a tensor
                with m.If(self.start):
                    m.next = "header" if sizes.header else "request"
            if sizes.header:
                self._headers(m, second)
            with m.State("request"):  # request the beats of a group, or a beat of maxima
                # Maxima wait for groups with available exponents, never the reverse: while maxima
                # wait to be output, no exponents come in.
                m.d.comb += self.request.p.addr.eq(maximum_address)
                m.d.comb += self.request.p.beats.eq(1)
                with m.If(
                    groups.valid & exponents.valid & group_valid
                    if sizes.planar
                    else groups.valid & exponents.valid
                ):
                    m.d.comb += self.request.p.addr.eq(address)
                    m.d.comb += self.request.p.beats.eq(exponent_beats + element_beats)
                    m.d.comb += self.request.valid.eq(1)
                    with m.If(self.request.ready):
                        m.d.comb += group_done.eq(1)
                        m.d.sync += count.eq(0)
                        m.next = "exponents"
                with m.Elif(maxima.valid & located & ~(last_maximum & groups.valid)):
                    m.d.comb += self.request.valid.eq(1)
                    with m.If(self.request.ready):
                        m.next = "maxima"
            with m.State("exponents"):  # write the exponent beats of the group
                m.d.comb += [
                    self.o.valid.eq(exponents.valid),
                    self.o.p.data.eq(exponents.p.beat),
                    exponents.ready.eq(self.o.ready),
                ]
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count == exponent_beats - 1):
                        m.d.sync += count.eq(0)
                        m.next = "elements"
            with m.State("elements"):  # write the element beats of the group, then zeros
                m.d.comb += [
                    self.o.valid.eq(elements.valid | padding),
                    self.o.p.data.eq(Mux(padding, 0, elements.p.beat)),
                    elements.ready.eq(self.o.ready & ~padding),
                ]
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += [count.eq(count + 1), padding.eq(padding | elements.p.last)]
                    with m.If(count == element_beats - 1):
                        m.d.sync += padding.eq(0)
                        m.next = "request"
            with m.State("maxima"):  # write a beat of maxima
                m.d.comb += [
                    self.o.valid.eq(maxima.valid),
                    self.o.p.data.eq(maxima.payload),
                    maxima.ready.eq(self.o.ready & maximum_ends if sizes.planar else self.o.ready),
                ]
                with m.If(self.o.ready):
                    m.d.comb += maximum_written.eq(1)
                    m.next = "request"
                    with m.If(last_maximum & maximum_ends if sizes.planar else last_maximum):
                        m.d.comb += self.done.eq(1)
                        m.next = "header request" if sizes.header else "idle"
        m.d.comb += groups.ready.eq(group_done)

    def _headers(self, m, second):
        """Write the exponent of the tensor, a beat at the beginning of every image."""
        sizes = self.sizes
        vectors = by_class(m, self.cls, map(int, sizes.vectors), "vectors_header").bool()
        exponent = Signal(signed(16))
        m.d.comb += exponent.eq(self.scale - NVFP4.tensor_scale_bias)
        with m.State("header"):  # request the beat of a header
            m.d.comb += [
                self.request.valid.eq(1),
                self.request.p.addr.eq(Mux(second, self.destination_t, self.destination)),
                self.request.p.beats.eq(1),
            ]
            with m.If(self.request.ready):
                m.next = "header beat"
        with m.State("header beat"):  # write the header
            m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(exponent.as_unsigned())]
            with m.If(self.o.ready):
                m.d.sync += second.eq(vectors & ~second)
                m.next = "request"
                with m.If(vectors & ~second):
                    m.next = "header"

    def _bytes(self, beats):
        return beats << exact_log2(self.sizes.beat_bytes)

    def _pitches(self, m):
        """Return the bytes of a group, and of a row of blocks of the first and of the second
        copy."""
        sizes = self.sizes
        shift = exact_log2(sizes.group_cols)
        beats = by_class(m, self.cls, sizes.by_class(sizes.group_beats), "group_beats")
        pitches = []
        for name, length in (("pitch", self.cols), ("pitch_t", self.rows)):
            pitch = Signal(ADDRESS_BITS, name=name)
            groups = (length + (2**shift - 1)) >> shift
            counts = sizes.by_class(sizes.group_beats)
            products = [times(groups, count) for count in counts]
            chosen = products[0] if len(set(counts)) == 1 else Array(products)[self.cls]
            m.d.comb += pitch.eq(self._bytes(chosen))
            pitches.append(pitch)
        return self._bytes(beats), *pitches

    def _locate_maxima(self, m, done) -> MaximaPlaces:
        sizes = self.sizes
        _, pitch, pitch_t = self._pitches(m)
        block_bits, beat_bits = exact_log2(sizes.block), exact_log2(sizes.beat_bytes)
        header = sizes.beat_bytes * sizes.header
        row_blocks = (self.rows + (sizes.block - 1)) >> block_bits
        col_blocks = (self.cols + (sizes.block - 1)) >> block_bits
        vectors = by_class(m, self.cls, map(int, sizes.vectors), "vectors_maxima").bool()

        def beats_of(blocks):
            entries = blocks
            if sizes.two_copies:
                entries = Mux(vectors, blocks << block_bits, blocks)
            return (entries + (sizes.beat_bytes - 1)) >> beat_bits

        counts = {
            "count_bits": len(row_blocks),
            "step_bits": 8,
            "beat_bytes": sizes.beat_bytes,
        }
        m.submodules.locate = locate = AddressGenerator(**counts)
        m.d.comb += [
            locate.start.eq(self.start),
            locate.base.eq(self.destination + header),
            locate.pitch.eq(pitch),
            locate.count.eq(row_blocks),
            locate.step.eq(sizes.beat_bytes),
        ]
        if not sizes.two_copies:
            beats = beats_of(row_blocks) + beats_of(col_blocks)
            left = data_register(len(beats), name="maxima_left")
            with m.If(done):
                m.d.sync += left.eq(left - 1)
            with m.If(self.start):
                m.d.sync += left.eq(beats)
            m.d.comb += locate.next.eq(done)
            copies = ((locate, self._bytes(left)),)
            return MaximaPlaces(locate.address, locate.ready, left == 1, Const(0, 1), copies)
        rows_left = data_register(len(beats_of(row_blocks)), name="rows_left")
        columns_left = data_register(len(beats_of(col_blocks)), name="columns_left")
        of_rows = rows_left.any()
        with m.If(done):
            with m.If(of_rows):
                m.d.sync += rows_left.eq(rows_left - 1)
            with m.Else():
                m.d.sync += columns_left.eq(columns_left - 1)
        with m.If(self.start):
            m.d.sync += rows_left.eq(beats_of(row_blocks))
            m.d.sync += columns_left.eq(beats_of(col_blocks))
        last = (rows_left == 0) & (columns_left == 1)
        m.submodules.locate_t = locate_t = AddressGenerator(**counts)
        m.d.comb += [
            locate.next.eq(done & (of_rows | ~vectors)),
            locate_t.start.eq(self.start),
            locate_t.base.eq(self.destination_t + header),
            locate_t.pitch.eq(pitch_t),
            locate_t.count.eq(col_blocks),
            locate_t.next.eq(done & ~of_rows),
            locate_t.step.eq(sizes.beat_bytes),
        ]
        transposed = vectors & ~of_rows
        first = Mux(vectors, rows_left, rows_left + columns_left)
        return MaximaPlaces(
            Mux(transposed, locate_t.address, locate.address),
            Mux(transposed, locate_t.ready, locate.ready),
            last,
            transposed,
            ((locate, self._bytes(first)), (locate_t, self._bytes(columns_left))),
        )

    def _locate_groups(self, m, groups, done):
        """Return the address of the next group; ``done``: the address is used."""
        sizes, group = self.sizes, groups.p
        group_bytes, pitch, pitch_t = self._pitches(m)
        start = (self.destination + sizes.beat_bytes * sizes.header)[:ADDRESS_BITS]
        if (sizes.max_tile_rows, sizes.max_tile_cols) == (sizes.block, sizes.group_cols):
            # Tiles are groups, and come in the order of the image, or of its patches.
            order = self._order(m, group, done, "order")
            options = {"dense": True, "unit": sizes.beat_bytes}
            return order.follow(m, Numbers(start, group_bytes, pitch, **options), "group")[0]
        first = self._locate_first(m, group, done & ~group.copy, start, group_bytes, pitch)
        if not sizes.two_copies:
            return first
        second = self._locate_second(m, group, done & group.copy, group_bytes, pitch_t)
        return Mux(group.copy, second, first)

    def _order(self, m, group, done, name):
        """Return the order of the tiles; ``done``: a group of the copy is written."""
        return make_tile_order(
            m,
            name,
            cut=self.cut if self.stored_rows else None,
            start=self.start,
            advance=done & group.copy_end,
            last_row=group.last_row,
            last_col=group.last_col,
        )

    def _shifted(self, m, value, counts, name):
        """Return ``value`` times the count of the class; all counts are powers of two."""
        shift = by_class(m, self.cls, [exact_log2(count) for count in counts], f"{name}_shift")
        shifted = Signal(ADDRESS_BITS, name=name)
        m.d.comb += shifted.eq(value << shift)
        return shifted

    def _locate_first(self, m, group, done, start, group_bytes, pitch):
        """Return the address of a group of the first copy: in a tile by rows of blocks, from top to
        bottom."""
        sizes = self.sizes
        row_counts = [sizes.tile_rows(cls) // sizes.block for cls in range(3)]
        col_counts = [sizes.tile_cols(cls) // sizes.group_cols for cls in range(3)]
        row_bytes = self._shifted(m, pitch, row_counts, "tile_row_bytes")
        tile_bytes = self._shifted(m, group_bytes, col_counts, "tile_bytes")
        order = self._order(m, group, done, "order")
        _, following = order.follow(m, Numbers(start, tile_bytes, row_bytes), "tile")
        # Addresses of the first group of this row of blocks in the tile, and of the next group.
        line, here = (data_register(ADDRESS_BITS, name=name) for name in ("line", "here"))
        with m.If(order.advance):
            m.d.sync += [here.eq(following), line.eq(following)]
        with m.Elif(done):
            m.d.sync += here.eq(here + group_bytes)
            with m.If(group.line_end):
                m.d.sync += [here.eq(line + pitch), line.eq(line + pitch)]
        with m.If(self.start):
            m.d.sync += [here.eq(start), line.eq(start)]
        return here

    def _locate_second(self, m, group, done, group_bytes, pitch):
        """Return the address of a group of the second copy: in a tile by strips, and in a strip by
        columns of blocks from left to right."""
        sizes = self.sizes
        col_counts = [cols // sizes.block for cols in sizes.by_class(sizes.tile_cols)]
        # Counts matter only for classes with vectors, whose tiles have at least one strip.
        row_counts = [max(1, rows // sizes.strip_rows) for rows in sizes.by_class(sizes.tile_rows)]
        order = self._order(m, group, done, "order_t")
        column, strip = (data_register(ADDRESS_BITS, name=name) for name in ("column", "strip"))
        tile_bytes = self._shifted(m, pitch, col_counts, "tile_t_bytes")
        below = self._shifted(m, group_bytes, row_counts, "tile_strips")
        after, lower = column + pitch, strip + group_bytes
        start = (self.destination_t + sizes.beat_bytes * sizes.header)[:ADDRESS_BITS]
        tile, next_tile = order.follow(m, Numbers(start, tile_bytes, 0, after=after), "tile_t")
        origin = Const(0, ADDRESS_BITS)
        _, next_strip = order.follow(m, Numbers(origin, 0, below, lower=lower), "strips")
        with m.If(order.advance):
            m.d.sync += [column.eq(next_tile), strip.eq(next_strip)]
        with m.Elif(done):
            m.d.sync += column.eq(after)
            with m.If(group.line_end):
                m.d.sync += [column.eq(tile), strip.eq(lower)]
        with m.If(self.start):
            m.d.sync += [column.eq(start), strip.eq(0)]
        return (column + strip)[:ADDRESS_BITS]
