"""Sixteen rows at a time, as vectors, scanned along their classes. In LLVM's portable form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .llvm_vectors import DOUBLE, SHORT, WORD, Call, emit_prefetch
from .numba_private import cgutils, intrinsic, ir, types
from .sixteen import LANES, ROWS, SCALE, falling, merged
from .tallies import TILE

# How far ahead rows are prefetched: the processor reads each column too briefly to predict it.
AHEAD = TILE
# a product with a power of two is exact, so fusing it with an addition changes no bit
EXACT = ("contract",)


def _vector(kind):
    return ir.VectorType(kind, ROWS)


def _filled(kind, value):
    return ir.Constant(_vector(kind), [value] * ROWS)


def _held(builder, kind, value):
    """A slot for a vector that changes in a loop; the compiler makes it a register."""
    return cgutils.alloca_once_value(builder, _filled(kind, value))


def _add(builder, slot, term):
    builder.store(builder.add(builder.load(slot), term), slot)


def _count(builder, slot, condition):
    known = builder.load(slot)
    builder.store(builder.select(condition, builder.add(known, _filled(SHORT, 1)), known), slot)


def _raised(builder, value):
    """Raised ticks at SCALE (see fixed_point)."""
    product = builder.fmul(value, _filled(DOUBLE, SCALE), flags=EXACT)
    total = builder.fadd(product, _filled(DOUBLE, 1.5 * 2.0**52), flags=EXACT)
    return builder.bitcast(total, _vector(WORD))


def _add_to_lanes(builder, lanes, k, ticks):
    """Add sixteen ticks to the LANES sums of class k."""

    def part(first):
        order = ir.Constant(ir.VectorType(SHORT, LANES), list(range(first, first + LANES)))
        return builder.shuffle_vector(ticks, ticks, order)

    row = builder.gep(lanes, [builder.mul(k, k.type(LANES))])
    row = builder.bitcast(row, ir.VectorType(WORD, LANES).as_pointer())
    both = builder.add(part(0), part(LANES))
    builder.store(builder.add(builder.load(row, align=8), both), row, align=8)


class _Scan:
    """The code of scan_sixteen."""

    def __init__(self, call: Call) -> None:
        self.call, self.builder = call, call.builder
        self.strip, columns = call.argument(2, "strip"), call.argument(0, "addresses")
        self.columns = columns.array(0).data
        self.first = call.builder.add(call.argument(0, "start").arguments[0], call.arguments[1])
        self.number = call.context.get_data_type(self.strip.kind(0))
        self.bits = ir.IntType(self.strip.kind(0).bitwidth)
        self.align = self.bits.width // 8
        kinds = {"total": WORD, "squares": WORD, "best": self.bits}
        kinds |= dict.fromkeys(("arg", "before", "equal"), SHORT)
        self.kinds = kinds
        self.slots = {name: _held(self.builder, kind, 0) for name, kind in kinds.items()}
        self.current = _held(self.builder, SHORT, 0)  # the class

    def read(self, k: Any) -> Any:
        """The outputs of class k, which are also stored in the strip. -0 becomes 0, as it has
        another bit pattern."""
        builder, line = self.builder, _vector(self.number).as_pointer()
        column = builder.load(builder.gep(self.columns, [k]))
        start = builder.gep(builder.inttoptr(column, self.number.as_pointer()), [self.first])
        for ahead in range(AHEAD, AHEAD + ROWS, 512 // self.bits.width):
            emit_prefetch(builder, builder.gep(start, [WORD(ahead)]), 2)
        values = builder.load(builder.bitcast(start, line), align=self.align)
        kept = self.strip.address(0, builder.mul(k, k.type(ROWS)), _vector(self.number))
        builder.store(values, kept, align=self.align)
        return builder.fadd(values, _filled(self.number, 0.0))

    def add(self, k: Any, values: Any, lanes: Any) -> None:
        """Add the ticks of the outputs of class k, and of their squares."""
        builder = self.builder
        p = values if self.number == DOUBLE else builder.fpext(values, _vector(DOUBLE))
        ticks = _raised(builder, p)
        _add(builder, self.slots["total"], ticks)
        _add(builder, self.slots["squares"], _raised(builder, builder.fmul(p, p)))
        _add_to_lanes(builder, lanes, k, ticks)

    def compare(self, pattern: Any, true: Any) -> None:
        """Compare bit patterns with the largest so far, and with those of the true classes."""
        builder, best, arg = self.builder, self.slots["best"], self.slots["arg"]
        above = builder.icmp_unsigned(">", pattern, builder.load(best))
        builder.store(builder.select(above, pattern, builder.load(best)), best)
        builder.store(builder.select(above, builder.load(self.current), builder.load(arg)), arg)
        _add(builder, self.current, _filled(SHORT, 1))
        _count(builder, self.slots["before"], builder.icmp_signed(">", pattern, true))
        _count(builder, self.slots["equal"], builder.icmp_signed("==", pattern, true))

    def run(self) -> None:
        builder, call, r = self.builder, self.call, self.call.arguments[1]
        classes = cgutils.unpack_tuple(builder, self.strip.array(0).shape, 2)[0]
        lanes = call.argument(3, "outputs").array(0).data
        truth = call.argument(2, "truth").address(0, r, _vector(self.number))
        true = builder.bitcast(builder.load(truth, align=self.align), _vector(self.bits))
        with cgutils.for_range(builder, classes) as loop:
            values = self.read(loop.index)
            self.add(loop.index, values, lanes)
            self.compare(builder.bitcast(values, _vector(self.bits)), true)
        for name, kind in self.kinds.items():
            target = call.argument(3, name).address(0, r, _vector(kind))
            builder.store(builder.load(self.slots[name]), target, align=kind.width // 8)


@intrinsic
def scan_sixteen(typing_context, columns, r, room, scan):
    """Scan the sixteen rows from number r on of a tile of ColumnRows along their classes: into the
    TileScan at r, with the true classes' outputs in room.truth, and the outputs into room.strip.

    The rows that lie AHEAD are prefetched meanwhile.
    """

    def generate(context, builder, signature, arguments):
        call = Call(context, builder, signature, arguments)
        _Scan(call).run()
        return call.done()

    return types.void(columns, types.intp, room, scan), generate


class _LargestTen:
    """The code of largest_ten."""

    def __init__(self, call: Call) -> None:
        # numbers that are not negative: their bit patterns have the same order, and are faster
        self.call, self.bits = call, ir.IntType(call.kind(0).bitwidth)
        self.held = [_held(call.builder, self.bits, 0) for _ in range(10)]
        self.table, self.top = self.lines(0), self.lines(2)
        self.classes = cgutils.unpack_tuple(call.builder, call.array(0).shape, 2)[0]

    def lines(self, array: int) -> Callable[[Any], Any]:
        """A function that gives sixteen numbers of line k of an array, from the index that follows
        it among the arguments."""
        call, builder = self.call, self.call.builder
        length = cgutils.unpack_tuple(builder, call.array(array).shape, 2)[1]
        first = call.address(array, call.arguments[array + 1], self.bits)
        pointer = _vector(self.bits).as_pointer()
        return lambda k: builder.bitcast(builder.gep(first, [builder.mul(k, length)]), pointer)

    def exchange(self, a: Any, b: Any) -> tuple[Any, Any]:
        builder = self.call.builder
        larger = builder.icmp_signed(">", a, b)
        return builder.select(larger, a, b), builder.select(larger, b, a)

    def take(self, first: Any, count: int) -> None:
        """Merge the values of some classes with the ten largest so far."""
        builder, align = self.call.builder, self.bits.width // 8
        lines = [self.table(builder.add(first, first.type(j))) for j in range(count)]
        new = falling([builder.load(line, align=align) for line in lines], self.exchange)
        known = [builder.load(slot) for slot in self.held]
        for value, slot in zip(merged(known, new, self.exchange), self.held, strict=False):
            builder.store(value, slot)

    def run(self) -> None:
        builder, classes = self.call.builder, self.classes
        eights = builder.udiv(classes, classes.type(8))
        with cgutils.for_range(builder, eights) as loop:
            self.take(builder.mul(loop.index, loop.index.type(8)), 8)
        taken = builder.mul(eights, eights.type(8))
        with cgutils.for_range(builder, builder.sub(classes, taken)) as loop:
            self.take(builder.add(taken, loop.index), 1)
        for j, slot in enumerate(self.held):
            place = self.top(classes.type(j))
            builder.store(builder.load(slot), place, align=self.bits.width // 8)


@intrinsic
def largest_ten(typing_context, table, i, top, r):
    """Of the sixteen rows from i on, the ten largest of table[k, i] over the classes k, in falling
    order: top[j, r].

    No value is negative. Eight classes are sorted, then merged with the ten largest so far: half as
    many comparisons as inserting the classes one by one. A loop over rows would load and store all
    ten for every class.
    """

    def generate(context, builder, signature, arguments):
        call = Call(context, builder, signature, arguments)
        _LargestTen(call).run()
        return call.done()

    return types.void(table, types.intp, top, types.intp), generate
