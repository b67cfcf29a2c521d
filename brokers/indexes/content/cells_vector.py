"""What the kernels of CellBitset ask of the processor: 64 comparisons at once, bit scans, prefetches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE = ir.IntType(8)
_FLAG = ir.IntType(32)
_LANES = ir.VectorType(_BYTE, 64)


def _within_64(typing_context, cells, position, cell):
    """Bit i says whether cells[position + i] <= cell <= cells[position + 64 + i]; cells is uint8."""

    def generate(context, builder, signature, arguments):
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        one = builder.insert_element(ir.Constant(_LANES, ir.Undefined), arguments[2], ir.Constant(_FLAG, 0))
        zeros = ir.Constant(ir.VectorType(_FLAG, 64), [0] * 64)
        value = builder.shuffle_vector(one, ir.Constant(_LANES, ir.Undefined), zeros)

        def lanes(at):
            address = builder.gep(start, [builder.add(arguments[1], ir.Constant(arguments[1].type, at))])
            return builder.load(builder.bitcast(address, _LANES.as_pointer()), align=1)

        low = builder.icmp_unsigned("<=", lanes(0), value)
        high = builder.icmp_unsigned(">=", lanes(64), value)
        return builder.bitcast(builder.and_(low, high), ir.IntType(64))

    return types.uint64(cells, types.intp, types.uint8), generate


def _trailing_zeros(typing_context, word):
    """The number of the lowest set bit of a word that is not zero."""

    def generate(context, builder, signature, arguments):
        return builder.sext(
            builder.trunc(builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1)), _FLAG), ir.IntType(64)
        )

    return types.int64(types.uint64), generate


def _prefetch(typing_context, array, position):
    """Ask for the cache line of an element, counted in elements from the start of a contiguous array."""

    def generate(context, builder, signature, arguments):
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(start, [arguments[1]]), _BYTE.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _FLAG, _FLAG, _FLAG])
        call = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE.as_pointer()], kind)
        read, keep, data = (ir.Constant(_FLAG, value) for value in (0, 3, 1))
        builder.call(call, [address, read, keep, data])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate


# Called from kernels only, with the first argument left out.
within_64: Any = intrinsic(_within_64)
trailing_zeros: Any = intrinsic(_trailing_zeros)
prefetch: Any = intrinsic(_prefetch)
