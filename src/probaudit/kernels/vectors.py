"""Vector instructions that numba does not write by itself, in LLVM's portable form."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


def address_of(context, builder, signature, arguments, array, index, pointee):
    """Where arguments[array], seen as flat, has its element arguments[index]; as a pointer to
    `pointee`."""
    data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
    return builder.bitcast(builder.gep(data, [arguments[index]]), pointee.as_pointer())


@intrinsic
def column_at(typing_context, addresses, k, size, like):
    """The column that begins at addresses[k], as an array of so many numbers of the type of
    `like`."""
    column = types.Array(like.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        number = context.get_data_type(like.dtype)
        address = builder.load(
            address_of(context, builder, signature, arguments, 0, 1, ir.IntType(64))
        )
        itemsize = context.get_constant(types.intp, like.dtype.bitwidth // 8)
        found = context.make_array(column)(context, builder)
        data = builder.inttoptr(address, number.as_pointer())
        populate_array(found, data, [arguments[2]], [itemsize], itemsize, meminfo=None)
        return found._getvalue()

    return column(addresses, types.intp, types.intp, like), generate


def ask_for(builder, address, cache):
    """Ask for the line of memory at an address, which need not exist, ahead of its use; into cache
    3, the nearest, or 2."""
    byte, number = ir.IntType(8), ir.IntType(32)
    function_type = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number])
    function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    read, data = number(0), number(1)
    builder.call(function, [builder.bitcast(address, byte.as_pointer()), read, number(cache), data])


@intrinsic
def prefetch(typing_context, array, i):
    """Ask for the cache line of element i of a contiguous array ahead of its use; it need not
    exist."""

    def generate(context, builder, signature, arguments):
        ask_for(builder, address_of(context, builder, signature, arguments, 0, 1, ir.IntType(8)), 3)
        return context.get_dummy_value()

    return types.void(array, i), generate


def _add_vector(size):
    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(ir.IntType(64), size)
        target = address_of(context, builder, signature, arguments, 0, 1, vector)
        source = address_of(context, builder, signature, arguments, 2, 3, vector)
        total = builder.add(builder.load(target, align=8), builder.load(source, align=8))
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return generate


@intrinsic
def add_four(typing_context, sums, i, terms, j):
    """sums[i : i + 4] += terms[j : j + 4] of contiguous int64 arrays, seen as flat, as one vector
    addition.

    numba leaves LLVM's vectorisation of straight code off, and four additions to memory take twice
    as long.
    """
    return types.void(sums, i, terms, j), _add_vector(4)


@intrinsic
def add_two(typing_context, sums, i, terms, j):
    """As add_four, of two."""
    return types.void(sums, i, terms, j), _add_vector(2)


def _transposed(builder, rows):
    """The columns of a matrix of four vectors of four."""

    def shuffled(a, b, order):
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), 4), order))

    a, b, c, d = rows
    columns = []
    for half in ([0, 4, 1, 5], [2, 6, 3, 7]):
        ab, cd = shuffled(a, b, half), shuffled(c, d, half)
        columns += [shuffled(ab, cd, [0, 1, 4, 5]), shuffled(ab, cd, [2, 3, 6, 7])]
    return columns


@intrinsic
def transpose_four(typing_context, source, i, row, target, j, column):
    """target[j + c * column + r] = source[i + r * row + c] for r, c < 4, of contiguous arrays seen
    as flat.

    The source is of float32 or float64, the target of the same or of float64. As a loop this would
    move one number at a time, and moving them is most of the work of loading.
    """

    def generate(context, builder, signature, arguments):
        given, wanted = signature.args[0].dtype, signature.args[3].dtype
        given_vector, wanted_vector = (
            ir.VectorType(context.get_data_type(t), 4) for t in (given, wanted)
        )

        def lines(array, index, step, vector):
            first = address_of(context, builder, signature, arguments, array, index, vector.element)
            for k in range(4):
                start = builder.gep(first, [builder.mul(arguments[step], arguments[step].type(k))])
                yield builder.bitcast(start, vector.as_pointer())

        rows = [
            builder.load(line, align=given.bitwidth // 8) for line in lines(0, 1, 2, given_vector)
        ]
        for values, line in zip(
            _transposed(builder, rows), lines(3, 4, 5, wanted_vector), strict=True
        ):
            converted = values if given == wanted else builder.fpext(values, wanted_vector)
            builder.store(converted, line, align=wanted.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(source, i, row, target, j, column), generate


@intrinsic
def transpose_columns(typing_context, addresses, k, i, target, j, row):
    """target[j + r * row + c], seen as flat, is the number i + r of the column at addresses[k + c],
    for r, c < 4."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[3].dtype
        vector, align = ir.VectorType(context.get_data_type(kind), 4), kind.bitwidth // 8
        place = address_of(context, builder, signature, arguments, 0, 1, ir.IntType(64))
        columns = []
        for c in range(4):
            first = builder.load(builder.gep(place, [ir.IntType(64)(c)]))
            start = builder.gep(
                builder.inttoptr(first, vector.element.as_pointer()), [arguments[2]]
            )
            columns.append(builder.load(builder.bitcast(start, vector.as_pointer()), align=align))
        first = address_of(context, builder, signature, arguments, 3, 4, vector.element)
        for r, values in enumerate(_transposed(builder, columns)):
            start = builder.gep(first, [builder.mul(arguments[5], arguments[5].type(r))])
            builder.store(values, builder.bitcast(start, vector.as_pointer()), align=align)
        return context.get_dummy_value()

    return types.void(addresses, types.intp, types.intp, target, types.intp, types.intp), generate


@intrinsic
def add_transposed_four(typing_context, source, i, row, sums, a, b, c, d):
    """sums[a + r] += source[i + r * row], sums[b + r] += source[i + r * row + 1], and so on for c
    and d, for r < 4, of contiguous arrays seen as flat: columns, one after another, of float32 or
    float64 into sums of float64."""

    def generate(context, builder, signature, arguments):
        given, wanted = signature.args[0].dtype, ir.VectorType(ir.DoubleType(), 4)
        vector = ir.VectorType(context.get_data_type(given), 4)
        first = address_of(context, builder, signature, arguments, 0, 1, vector.element)
        rows = []
        for k in range(4):
            start = builder.gep(first, [builder.mul(arguments[2], arguments[2].type(k))])
            rows.append(
                builder.load(builder.bitcast(start, vector.as_pointer()), align=given.bitwidth // 8)
            )
        for index, values in enumerate(_transposed(builder, rows), 4):
            target = address_of(context, builder, signature, arguments, 3, index, wanted)
            converted = values if given.bitwidth == 64 else builder.fpext(values, wanted)
            builder.store(builder.fadd(builder.load(target, align=8), converted), target, align=8)
        return context.get_dummy_value()

    return types.void(source, i, row, sums, a, b, c, d), generate


@intrinsic
def at_least(typing_context, array, i, least):
    """Which of array[i : i + 64], contiguous integers of the type of `least`, are not below it: a
    word with a bit for each."""

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(context.get_data_type(signature.args[0].dtype), 64)
        address = address_of(context, builder, signature, arguments, 0, 1, vector)
        values = builder.load(address, align=signature.args[0].dtype.bitwidth // 8)
        one = builder.insert_element(
            ir.Constant(vector, ir.Undefined), arguments[2], ir.IntType(32)(0)
        )
        splat = builder.shuffle_vector(
            one, one, ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        )
        return builder.bitcast(builder.icmp_signed(">=", values, splat), ir.IntType(64))

    return types.uint64(array, i, array.dtype), generate


@intrinsic
def lowest_bit(typing_context, word):
    """The place of the lowest bit of a word that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate
