"""Sixteen rows at a time, as vectors: what one look along their classes tells of each. In LLVM's portable form."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .vectors import address_of

ROWS = 16
LANES = 8  # sums of each class that are added to side by side
EXACT = ("contract",)  # a product with a power of two is exact, so that to add to it at once changes no bit
DOUBLE, WORD, SHORT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)


def _vector(kind):
    return ir.VectorType(kind, ROWS)


def _filled(kind, value):
    return ir.Constant(_vector(kind), [value] * ROWS)


def _held(builder, kind, value):
    """A place for a vector that changes in a loop; the compiler makes it a register."""
    return cgutils.alloca_once_value(builder, _filled(kind, value))


class _Columns:
    """The numbers of sixteen rows, class by class: table[k, r : r + 16] of a contiguous table [K, n]; arguments 0 and 1."""

    def __init__(self, context, builder, signature, arguments):
        self.given = signature.args[0].dtype
        self.kind = context.get_data_type(self.given)
        table = context.make_array(signature.args[0])(context, builder, arguments[0])
        self.classes, self.line = cgutils.unpack_tuple(builder, table.shape, 2)
        self.align, self._builder = self.given.bitwidth // 8, builder
        self._first = address_of(context, builder, signature, arguments, 0, 1, self.kind)

    def values(self, k):
        place = self._builder.gep(self._first, [self._builder.mul(k, self.line)])
        return self._builder.load(self._builder.bitcast(place, _vector(self.kind).as_pointer()), align=self.align)


@intrinsic
def look_at_sixteen(typing_context, table, r, truth, scale, total, squares, sign, best, arg, before, equal, outputs):
    """Of the sixteen rows from r on, with p = table[k, r] for each class k, and arrays by row:

    total, squares : the sums of the raised ticks of p and p^2 at `scale`, a power of two.
    sign, best, arg : of the bits of p as integers: all of them joined (negative if one is), the largest, and where it is first.
    before, equal : how many bit patterns are larger than that of truth, and how many the same.
    outputs : [K, LANES] to which the raised ticks of p of each class are added.
    """

    def generate(context, builder, signature, arguments):
        columns = _Columns(context, builder, signature, arguments)
        bits = ir.IntType(columns.given.bitwidth)

        def place(array, kind):
            return address_of(context, builder, signature, arguments, array, 1, _vector(kind))

        def add(slot, term):
            builder.store(builder.add(builder.load(slot), term), slot)

        one = builder.insert_element(ir.Constant(_vector(DOUBLE), ir.Undefined), arguments[3], SHORT(0))
        scales = builder.shuffle_vector(one, one, _filled(SHORT, 0))

        def raised(value):
            product = builder.fmul(value, scales, EXACT)
            return builder.bitcast(builder.fadd(product, _filled(DOUBLE, 1.5 * 2.0**52), EXACT), _vector(WORD))

        def part(vector, first):
            order = ir.Constant(ir.VectorType(SHORT, LANES), list(range(first, first + LANES)))
            return builder.shuffle_vector(vector, vector, order)

        true = builder.bitcast(builder.load(place(2, columns.kind), align=columns.align), _vector(bits))
        lowest = -(2 ** (columns.given.bitwidth - 1))
        slots = [(WORD, 0), (WORD, 0), (bits, 0), (bits, lowest), (SHORT, 0), (SHORT, 0), (SHORT, 0)]
        found = [_held(builder, kind, value) for kind, value in slots]
        sums, products, signs, largest, first, larger, same = found
        current = _held(builder, SHORT, 0)
        lanes = context.make_array(signature.args[11])(context, builder, arguments[11]).data
        with cgutils.for_range(builder, columns.classes) as loop:
            values = columns.values(loop.index)
            pattern = builder.bitcast(values, _vector(bits))
            p = values if columns.kind == DOUBLE else builder.fpext(values, _vector(DOUBLE))
            ticks = raised(p)
            add(sums, ticks)
            add(products, raised(builder.fmul(p, p)))
            line = builder.gep(lanes, [builder.mul(loop.index, loop.index.type(LANES))])
            line = builder.bitcast(line, ir.VectorType(WORD, LANES).as_pointer())
            both = builder.add(part(ticks, 0), part(ticks, LANES))
            builder.store(builder.add(builder.load(line, align=8), both), line, align=8)
            builder.store(builder.or_(builder.load(signs), pattern), signs)
            above = builder.icmp_signed(">", pattern, builder.load(largest))
            builder.store(builder.select(above, pattern, builder.load(largest)), largest)
            builder.store(builder.select(above, builder.load(current), builder.load(first)), first)
            add(current, _filled(SHORT, 1))
            add(larger, builder.zext(builder.icmp_signed(">", pattern, true), _vector(SHORT)))
            add(same, builder.zext(builder.icmp_signed("==", pattern, true), _vector(SHORT)))
        for array, (slot, (kind, _)) in enumerate(zip(found, slots, strict=True), 4):
            builder.store(builder.load(slot), place(array, kind), align=kind.width // 8)
        return context.get_dummy_value()

    arrays = total, squares, sign, best, arg, before, equal, outputs
    return types.void(table, types.intp, truth, types.float64, *arrays), generate


@intrinsic
def largest_ten(typing_context, table, r, top):
    """Of the sixteen rows from r on, the ten largest of table[k, r] over the classes k, in falling order: top[j, r].

    No value is below -1. A loop over rows would load and store all ten for every class.
    """

    def generate(context, builder, signature, arguments):
        columns = _Columns(context, builder, signature, arguments)
        held = [_held(builder, columns.kind, -1.0) for _ in range(10)]
        target = address_of(context, builder, signature, arguments, 2, 1, columns.kind)
        with cgutils.for_range(builder, columns.classes) as loop:
            value = columns.values(loop.index)
            for slot in held:
                known = builder.load(slot)
                larger = builder.fcmp_ordered(">", known, value)
                builder.store(builder.select(larger, known, value), slot)
                value = builder.select(larger, value, known)
        for j, slot in enumerate(held):
            place = builder.gep(target, [builder.mul(columns.line.type(j), columns.line)])
            builder.store(builder.load(slot), builder.bitcast(place, _vector(columns.kind).as_pointer()), align=columns.align)
        return context.get_dummy_value()

    return types.void(table, types.intp, top), generate
