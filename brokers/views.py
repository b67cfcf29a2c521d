"""Arrays as compiled code sees them where every nanosecond counts: an address, a length, nothing else.

Numba counts the references to each array that a function touches, by calls that take longer than what is done with it
when a function handles one event. A view has no owner and is only indexed: view[i], view[i, j], view.size,
view.shape. There is no bounds check, as in all compiled code, and an index below zero does not count from the end.
Whoever makes one keeps the array that it stands for.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import (
    intrinsic,
    lower_builtin,
    lower_getattr,
    make_attribute_wrapper,
    models,
    register_model,
)


class View(types.Type):
    """The type of views of one or two dimensions, rows one behind the other."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype = dtype
        self.ndim = ndim
        super().__init__(f"View({dtype}, {ndim})")


@register_model(View)
class _ViewModel(models.StructModel):
    def __init__(self, manager: Any, view: View) -> None:
        members = [("data", types.CPointer(view.dtype)), ("rows", types.int64), ("columns", types.int64)]
        super().__init__(manager, view, members)


make_attribute_wrapper(View, "rows", "rows")
make_attribute_wrapper(View, "columns", "columns")


@infer_getattr
class _Sizes(AttributeTemplate):
    """`size` and `shape`; an overload that Numba inlines would have it drop writes to views as dead code."""

    key = View

    def resolve_size(self, view: View) -> Any:
        return types.int64

    def resolve_shape(self, view: View) -> Any:
        return types.UniTuple(types.int64, view.ndim)


@lower_getattr(View, "size")
def _size(context: Any, builder: Any, kind: View, value: Any) -> Any:
    view = cgutils.create_struct_proxy(kind)(context, builder, value)
    return view.rows if kind.ndim == 1 else builder.mul(view.rows, view.columns)


@lower_getattr(View, "shape")
def _shape(context: Any, builder: Any, kind: View, value: Any) -> Any:
    view = cgutils.create_struct_proxy(kind)(context, builder, value)
    sizes = [view.rows] if kind.ndim == 1 else [view.rows, view.columns]
    return context.make_tuple(builder, types.UniTuple(types.int64, kind.ndim), sizes)


def _indexes(view: Any, index: Any) -> bool:
    """Whether this is an index of a whole element."""
    if not isinstance(view, View):
        return False
    if view.ndim == 1:
        return isinstance(index, types.Integer)
    pair = isinstance(index, types.UniTuple | types.Tuple) and len(index) == 2
    return pair and all(isinstance(i, types.Integer) for i in index.types)


@infer_global(operator.getitem)
class _Get(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        view, index = args
        return signature(view.dtype, view, index) if _indexes(view, index) else None


@infer_global(operator.setitem)
class _Set(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        view, index, value = args
        if _indexes(view, index) and self.context.can_convert(value, view.dtype) is not None:
            return signature(types.none, view, index, view.dtype)
        return None


def _place(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The address of an element."""
    kind, index_type = sig.args[:2]
    view = cgutils.create_struct_proxy(kind)(context, builder, args[0])
    if kind.ndim == 1:
        at = context.cast(builder, args[1], index_type, types.int64)
    else:
        row, column = (
            context.cast(builder, cgutils.unpack_tuple(builder, args[1])[i], index_type[i], types.int64) for i in (0, 1)
        )
        at = builder.add(builder.mul(row, view.columns), column)
    return builder.gep(view.data, [at], inbounds=True)


@lower_builtin(operator.getitem, View, types.Any)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.unpack_value(builder, sig.args[0].dtype, _place(context, builder, sig, args))


@lower_builtin(operator.setitem, View, types.Any, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    value = context.cast(builder, args[2], sig.args[2], sig.args[0].dtype)
    context.pack_value(builder, sig.args[0].dtype, value, _place(context, builder, sig, args))
    return context.get_dummy_value()


@intrinsic
def _viewed(_context: Any, array: Any) -> Any:
    view = View(array.dtype, array.ndim)

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        given = context.make_array(array)(context, builder, args[0])
        shape = cgutils.unpack_tuple(builder, given.shape)
        made = cgutils.create_struct_proxy(view)(context, builder)
        made.data = builder.bitcast(given.data, context.get_value_type(types.CPointer(view.dtype)))
        made.rows, made.columns = shape[0], shape[-1]
        return made._getvalue()

    return view(array), code


@intrinsic
def _where(_context: Any, view: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        shown = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
        return builder.ptrtoint(shown.data, context.get_value_type(types.int64))

    return types.int64(view), code


viewed: Any = _viewed  # the view of an array, in compiled code
where: Any = _where  # the address of what a view shows

INTS, NARROW, FLAGS = View(types.int64, 1), View(types.int32, 1), View(types.boolean, 1)
WORDS, REALS = View(types.uint64, 1), View(types.float64, 1)
TABLE, NARROW_TABLE = View(types.int64, 2), View(types.int32, 2)
WORDS_TABLE, REALS_TABLE = View(types.uint64, 2), View(types.float64, 2)
