"""Sixteen rows at a time, as vectors: what one look along their classes tells of each. In LLVM's
portable form."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .networks import falling, merged
from .tallies import TILE
from .vectors import address_of, ask_for

ROWS = 16
# rows ahead of those that are looked at are asked for: no column is looked at for long enough to be
# foreseen
AHEAD = TILE
LANES = 8  # sums of each class that are added to side by side
# a product with a power of two is exact, so that to add to it at once changes no bit
EXACT = ("contract",)
DOUBLE, WORD, SHORT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)


def _vector(kind):
    return ir.VectorType(kind, ROWS)


def _filled(kind, value):
    return ir.Constant(_vector(kind), [value] * ROWS)


def _held(builder, kind, value):
    """A place for a vector that changes in a loop; the compiler makes it a register."""
    return cgutils.alloca_once_value(builder, _filled(kind, value))


@intrinsic
def scan_sixteen(
    typing_context,
    addresses,
    i,
    strip,
    r,
    truth,
    scale,
    total,
    squares,
    best,
    arg,
    before,
    equal,
    outputs,
):
    """Of the sixteen rows from number i on of columns at addresses, with p for each class, and
    arrays by row:

    strip : [K, 16] where p goes.
    total, squares : the sums of the raised ticks of p and p^2 at `scale`, a power of two.
    best, arg : the largest bit pattern of p, as one without a sign, so that of a negative p it is
        above all others; and where it is first.
    before, equal : how many bit patterns are larger than that of truth, and how many the same.
    outputs : [K, LANES] to which the raised ticks of p of each class are added.

    The rows that lie AHEAD are asked for meanwhile.
    """

    def generate(context, builder, signature, arguments):
        given = signature.args[2].dtype
        number, bits, align = (
            context.get_data_type(given),
            ir.IntType(given.bitwidth),
            given.bitwidth // 8,
        )
        strip = context.make_array(signature.args[2])(context, builder, arguments[2])
        classes, target = cgutils.unpack_tuple(builder, strip.shape, 2)[0], strip.data
        columns = address_of(
            context, builder, signature, [arguments[0], classes.type(0)], 0, 1, WORD
        )

        def place(array, kind):
            return address_of(context, builder, signature, arguments, array, 3, _vector(kind))

        def add(slot, term):
            builder.store(builder.add(builder.load(slot), term), slot)

        def count(slot, condition):
            known = builder.load(slot)
            builder.store(
                builder.select(condition, builder.add(known, _filled(SHORT, 1)), known), slot
            )

        one = builder.insert_element(
            ir.Constant(_vector(DOUBLE), ir.Undefined), arguments[5], SHORT(0)
        )
        scales = builder.shuffle_vector(one, one, _filled(SHORT, 0))

        def raised(value):
            product = builder.fmul(value, scales, flags=EXACT)
            return builder.bitcast(
                builder.fadd(product, _filled(DOUBLE, 1.5 * 2.0**52), flags=EXACT), _vector(WORD)
            )

        def part(vector, first):
            order = ir.Constant(ir.VectorType(SHORT, LANES), list(range(first, first + LANES)))
            return builder.shuffle_vector(vector, vector, order)

        true = builder.bitcast(builder.load(place(4, number), align=align), _vector(bits))
        slots = [(WORD, 0), (WORD, 0), (bits, 0), (SHORT, 0), (SHORT, 0), (SHORT, 0)]
        found = [_held(builder, kind, value) for kind, value in slots]
        sums, products, largest, first, larger, same = found
        current = _held(builder, SHORT, 0)
        lanes = context.make_array(signature.args[12])(context, builder, arguments[12]).data
        with cgutils.for_range(builder, classes) as loop:
            start = builder.inttoptr(
                builder.load(builder.gep(columns, [loop.index])), number.as_pointer()
            )
            start = builder.gep(start, [arguments[1]])
            for ahead in range(AHEAD, AHEAD + ROWS, 512 // given.bitwidth):
                ask_for(builder, builder.gep(start, [WORD(ahead)]), 2)
            start = builder.bitcast(start, _vector(number).as_pointer())
            values = builder.load(start, align=align)
            kept = builder.bitcast(
                builder.gep(target, [builder.mul(loop.index, loop.index.type(ROWS))]),
                _vector(number).as_pointer(),
            )
            builder.store(values, kept, align=align)
            values = builder.fadd(values, _filled(number, 0.0))  # -0 has another bit pattern than 0
            pattern = builder.bitcast(values, _vector(bits))
            p = values if number == DOUBLE else builder.fpext(values, _vector(DOUBLE))
            ticks = raised(p)
            add(sums, ticks)
            add(products, raised(builder.fmul(p, p)))
            row = builder.gep(lanes, [builder.mul(loop.index, loop.index.type(LANES))])
            row = builder.bitcast(row, ir.VectorType(WORD, LANES).as_pointer())
            both = builder.add(part(ticks, 0), part(ticks, LANES))
            builder.store(builder.add(builder.load(row, align=8), both), row, align=8)
            above = builder.icmp_unsigned(">", pattern, builder.load(largest))
            builder.store(builder.select(above, pattern, builder.load(largest)), largest)
            builder.store(builder.select(above, builder.load(current), builder.load(first)), first)
            add(current, _filled(SHORT, 1))
            count(larger, builder.icmp_signed(">", pattern, true))
            count(same, builder.icmp_signed("==", pattern, true))
        for array, (slot, (kind, _)) in enumerate(zip(found, slots, strict=True), 6):
            builder.store(builder.load(slot), place(array, kind), align=kind.width // 8)
        return context.get_dummy_value()

    arrays = total, squares, best, arg, before, equal, outputs
    return types.void(
        addresses, types.intp, strip, types.intp, truth, types.float64, *arrays
    ), generate


@intrinsic
def largest_ten(typing_context, table, i, top, r):
    """Of the sixteen rows from i on, the ten largest of table[k, i] over the classes k, in falling
    order: top[j, r].

    No value is negative. Eight classes are sorted, then merged with the ten known before: half as
    many comparisons as if each class sank to its place. As a loop over rows it would load and store
    all ten for every class.
    """

    def generate(context, builder, signature, arguments):
        # of numbers that are not negative: in the same order, and faster
        bits = ir.IntType(signature.args[0].dtype.bitwidth)
        align = bits.width // 8

        def lines(array, index):
            """How many there are, and those of sixteen numbers from the index on."""
            shape = context.make_array(signature.args[array])(
                context, builder, arguments[array]
            ).shape
            count, length = cgutils.unpack_tuple(builder, shape, 2)
            first = address_of(context, builder, signature, arguments, array, index, bits)
            return count, lambda k: builder.bitcast(
                builder.gep(first, [builder.mul(k, length)]), _vector(bits).as_pointer()
            )

        def exchange(a, b):
            larger = builder.icmp_signed(">", a, b)
            return builder.select(larger, a, b), builder.select(larger, b, a)

        classes, line_of = lines(0, 1)
        _, place_of = lines(2, 3)
        held = [_held(builder, bits, 0) for _ in range(10)]

        def take(first, count):
            new = [
                builder.load(line_of(builder.add(first, first.type(j))), align=align)
                for j in range(count)
            ]
            known = [builder.load(slot) for slot in held]
            for value, slot in zip(
                merged(known, falling(new, exchange), exchange), held, strict=False
            ):
                builder.store(value, slot)

        eights = builder.udiv(classes, classes.type(8))
        with cgutils.for_range(builder, eights) as loop:
            take(builder.mul(loop.index, loop.index.type(8)), 8)
        taken = builder.mul(eights, eights.type(8))
        with cgutils.for_range(builder, builder.sub(classes, taken)) as loop:
            take(builder.add(taken, loop.index), 1)
        for j, slot in enumerate(held):
            builder.store(builder.load(slot), place_of(classes.type(j)), align=align)
        return context.get_dummy_value()

    return types.void(table, types.intp, top, types.intp), generate
