"""Two machine instructions that Numba has no name for, for kernels of any index."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def trailing_zeros(typing_context, word):
    """The number of the lowest set bit of a uint64 that is not zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(typing_context, array, position):
    """Ask for the cache line of an element, counted in elements from the start of a contiguous array.

    The position may lie outside: a prefetch of an address that is none is no fault.
    """

    def generate(context, builder, signature, arguments):
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(start, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data = (ir.Constant(flag, value) for value in (0, 3, 1))
        builder.call(instruction, [address, read, keep, data])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate
