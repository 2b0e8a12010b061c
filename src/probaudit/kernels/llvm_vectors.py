"""Vector instructions that numba does not generate by itself, in LLVM's portable form."""

from __future__ import annotations

from typing import Any, NamedTuple

from .numba_private import cgutils, intrinsic, ir, populate_array, types
from .plain_vectors import STRETCH

BYTE, SHORT, WORD, DOUBLE = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
PAIR = types.UniTuple(types.intp, 2)


class Call(NamedTuple):
    """The call of an intrinsic for which code is generated."""

    context: Any
    builder: Any
    signature: Any
    arguments: Any

    def argument(self, index: int, *path: str) -> Call:
        """A call with only one argument of this one: itself, or a field of a NamedTuple."""
        kind, value = self.signature.args[index], self.arguments[index]
        for name in path:
            field = kind.fields.index(name)
            kind, value = kind.types[field], self.builder.extract_value(value, field)
        return self._replace(signature=types.void(kind), arguments=(value,))

    def kind(self, array: int) -> Any:
        """numba's type of the elements of an array."""
        return self.signature.args[array].dtype

    def array(self, array: int) -> Any:
        """The structure that describes an array."""
        make = self.context.make_array(self.signature.args[array])
        return make(self.context, self.builder, self.arguments[array])

    def address(self, array: int, index: Any, pointee: Any) -> Any:
        """The address of an element of an array, read as flat; as a pointer to `pointee`."""
        start = self.builder.gep(self.array(array).data, [index])
        return self.builder.bitcast(start, pointee.as_pointer())

    def done(self) -> Any:
        """What an intrinsic returns that returns nothing."""
        return self.context.get_dummy_value()


@intrinsic
def column_at(typing_context, addresses, k, size, like):
    """The column that begins at addresses[k], as an array of `size` numbers of the type of
    `like`."""
    column = types.Array(like.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        call = Call(context, builder, signature, arguments)
        number = context.get_data_type(like.dtype)
        address = builder.load(call.address(0, arguments[1], WORD))
        itemsize = context.get_constant(types.intp, like.dtype.bitwidth // 8)
        made = context.make_array(column)(context, builder)
        data = builder.inttoptr(address, number.as_pointer())
        populate_array(made, data, [arguments[2]], [itemsize], itemsize, meminfo=None)
        return made._getvalue()

    return column(addresses, types.intp, types.intp, like), generate


def emit_prefetch(builder, address, cache):
    """Prefetch the cache line at an address, which need not exist, into cache 3, the nearest, or
    2."""
    function_type = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), SHORT, SHORT, SHORT])
    function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    read, data = SHORT(0), SHORT(1)
    builder.call(function, [builder.bitcast(address, BYTE.as_pointer()), read, SHORT(cache), data])


@intrinsic
def prefetch(typing_context, array, i):
    """Prefetch the cache line of element i of a contiguous array; it need not exist."""

    def generate(context, builder, signature, arguments):
        call = Call(context, builder, signature, arguments)
        emit_prefetch(builder, call.address(0, arguments[1], BYTE), 3)
        return call.done()

    return types.void(array, i), generate


def _add_vector(size):
    def generate(context, builder, signature, arguments):
        call, vector = Call(context, builder, signature, arguments), ir.VectorType(WORD, size)
        target = call.address(0, arguments[1], vector)
        source = call.address(2, arguments[3], vector)
        total = builder.add(builder.load(target, align=8), builder.load(source, align=8))
        builder.store(total, target, align=8)
        return call.done()

    return generate


@intrinsic
def add_four(typing_context, sums, i, terms, j):
    """sums[i : i + 4] += terms[j : j + 4] of contiguous int64 arrays, read as flat, as one vector
    addition.

    numba disables LLVM's vectorisation of straight-line code, and four additions to memory take
    twice as long.
    """
    return types.void(sums, i, terms, j), _add_vector(4)


@intrinsic
def add_two(typing_context, sums, i, terms, j):
    """The same for two elements."""
    return types.void(sums, i, terms, j), _add_vector(2)


def _transposed(builder, rows):
    """The columns of a matrix of four vectors of four."""

    def shuffled(a, b, order):
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(SHORT, 4), order))

    a, b, c, d = rows
    columns = []
    for half in ([0, 4, 1, 5], [2, 6, 3, 7]):
        ab, cd = shuffled(a, b, half), shuffled(c, d, half)
        columns += [shuffled(ab, cd, [0, 1, 4, 5]), shuffled(ab, cd, [2, 3, 6, 7])]
    return columns


def _lines(call, array, place, vector):
    """Pointers to four vectors of an array, read as flat. The place is the index of the first, and
    the distance from one to the next."""
    builder = call.builder
    index, step = place
    first = call.address(array, index, vector.element)
    for k in range(4):
        start = builder.gep(first, [builder.mul(step, step.type(k))])
        yield builder.bitcast(start, vector.as_pointer())


@intrinsic
def transpose_four(typing_context, source, source_place, target, target_place):
    """Transpose four by four numbers of contiguous arrays, read as flat. A place is a pair: the
    index of the first number, and the distance from one line to the next.

    The source is float32 or float64, the target has the same type or float64. A loop would move one
    number at a time, and moving them is most of the work of loading.
    """

    def generate(context, builder, signature, arguments):
        call = Call(context, builder, signature, arguments)
        given, wanted = call.kind(0), call.kind(2)
        given_vector, wanted_vector = (
            ir.VectorType(context.get_data_type(t), 4) for t in (given, wanted)
        )
        source_place, target_place = (cgutils.unpack_tuple(builder, arguments[i]) for i in (1, 3))
        rows = [
            builder.load(line, align=given.bitwidth // 8)
            for line in _lines(call, 0, source_place, given_vector)
        ]
        lines = _lines(call, 2, target_place, wanted_vector)
        for values, line in zip(_transposed(builder, rows), lines, strict=True):
            converted = values if given == wanted else builder.fpext(values, wanted_vector)
            builder.store(converted, line, align=wanted.bitwidth // 8)
        return call.done()

    return types.void(source, PAIR, target, PAIR), generate


@intrinsic
def transpose_columns(typing_context, addresses, k, i, target, target_place):
    """Write the numbers i to i + 3 of the columns at addresses[k : k + 4] as four rows. The place,
    in the target read as flat, is as for transpose_four."""

    def generate(context, builder, signature, arguments):
        call, kind = Call(context, builder, signature, arguments), signature.args[3].dtype
        vector, align = ir.VectorType(context.get_data_type(kind), 4), kind.bitwidth // 8
        place = call.address(0, arguments[1], WORD)
        columns = []
        for c in range(4):
            first = builder.load(builder.gep(place, [WORD(c)]))
            start = builder.gep(
                builder.inttoptr(first, vector.element.as_pointer()), [arguments[2]]
            )
            columns.append(builder.load(builder.bitcast(start, vector.as_pointer()), align=align))
        lines = _lines(call, 3, cgutils.unpack_tuple(builder, arguments[4]), vector)
        for values, line in zip(_transposed(builder, columns), lines, strict=True):
            builder.store(values, line, align=align)
        return call.done()

    return types.void(addresses, types.intp, types.intp, target, PAIR), generate


@intrinsic
def add_transposed_four(typing_context, source, source_place, sums, targets):
    """Add four columns of four numbers each, which begin at a place of the source (see
    transpose_four), to sums[t : t + 4] for the four indexes t in `targets`. The source is float32
    or float64, the sums are float64."""

    def generate(context, builder, signature, arguments):
        call = Call(context, builder, signature, arguments)
        given, wanted = call.kind(0), ir.VectorType(DOUBLE, 4)
        vector = ir.VectorType(context.get_data_type(given), 4)
        source_place, targets = (cgutils.unpack_tuple(builder, arguments[i]) for i in (1, 3))
        rows = [
            builder.load(line, align=given.bitwidth // 8)
            for line in _lines(call, 0, source_place, vector)
        ]
        for index, values in zip(targets, _transposed(builder, rows), strict=True):
            target = call.address(2, index, wanted)
            converted = values if given.bitwidth == 64 else builder.fpext(values, wanted)
            builder.store(builder.fadd(builder.load(target, align=8), converted), target, align=8)
        return call.done()

    return types.void(source, PAIR, sums, types.UniTuple(types.intp, 4)), generate


@intrinsic
def at_least(typing_context, array, i, least):
    """Which of array[i : i + STRETCH], contiguous integers, are not below `least`: a word with a
    bit for each."""

    def generate(context, builder, signature, arguments):
        call = Call(context, builder, signature, arguments)
        vector = ir.VectorType(context.get_data_type(call.kind(0)), STRETCH)
        address = call.address(0, arguments[1], vector)
        values = builder.load(address, align=call.kind(0).bitwidth // 8)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], SHORT(0))
        splat = builder.shuffle_vector(
            one, one, ir.Constant(ir.VectorType(SHORT, STRETCH), [0] * STRETCH)
        )
        return builder.bitcast(builder.icmp_signed(">=", values, splat), WORD)

    return types.uint64(array, i, array.dtype), generate


@intrinsic
def lowest_bit(typing_context, word):
    """The position of the lowest bit of a word that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate
