"""Vectorized inner loops: dot products of rows, a step of AdaGrad, and prefetching.

Nearly all time is spent in the first two. A compiler vectorizes a loop only if it can prove that this is safe. It may not
reorder a sum, and it gives up on a loop that writes to several of many arrays, because they might overlap. So both are
written in the compiler's intermediate language.

`dots` fixes the order of its sums: eight interleaved ones per row, then a tree. So the product of a row has the same bits in
one request or in a batch, and on every processor. Eight rows are read at a time, so that eight memory reads overlap.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from coldstream.support.arrays import Floats, Integers
from coldstream.support.compiled import inlined

LANES = 8
EXPONENT = 0x7F800000
"""Exponent bits of a float32: all ones for infinity and NaN."""
DIVERGED = (127 + 40) << 23
"""Exponent bits of 2⁴⁰. A parameter that large has diverged, and its scores would overflow next."""
_CHECKED = bool(getattr(numba.config, "BOUNDSCHECK", False))

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)
# Indices that pair neighbouring lanes of two vectors; adding the pairs leaves half as many lanes of each.
_EVEN, _ODD = [0, 2, 8, 10, 4, 6, 12, 14], [1, 3, 9, 11, 5, 7, 13, 15]
_LOW, _HIGH = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]


@intrinsic
def _eight_dots(_context: Any, V: Any, column: Any, n: Any, q: Any, out: Any, m: Any) -> Any:  # noqa: ARG001
    """Write out[m : m + 8] = V[column[n : n + 8]] @ q."""
    signature = types.void(V, column, types.intp, q, out, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def array(place: int) -> Any:
            return context.make_array(signature.args[place])(context, builder, args[place])

        def load(data: Any, at: Any) -> Any:
            return builder.load(builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer()), align=4)

        def added(a: Any, b: Any, first: list[int], second: list[int]) -> Any:
            masks = [ir.Constant(ir.VectorType(_I32, LANES), mask) for mask in (first, second)]
            return builder.fadd(*(builder.shuffle_vector(a, b, mask) for mask in masks))

        V, column, q, out = array(0), array(1), array(3), array(4)
        k = builder.extract_value(V.shape, 1)
        whole = builder.lshr(k, _I64(3))
        rows = []
        for row in range(LANES):
            index = builder.sext(builder.load(builder.gep(column.data, [builder.add(args[2], _I64(row))])), _I64)
            rows.append(builder.gep(V.data, [builder.mul(index, k)]))
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        sums = [cgutils.alloca_once(builder, _VECTOR) for _ in rows]
        for own in sums:
            builder.store(zero, own)
        with cgutils.for_range(builder, whole) as loop:
            at = builder.shl(loop.index, _I64(3))
            factor = load(q.data, at)
            for row, own in zip(rows, sums, strict=True):
                builder.store(builder.fadd(builder.load(own), builder.fmul(factor, load(row, at))), own)
        level = [builder.load(own) for own in sums]
        for _ in range(2):
            level = [added(level[j], level[j + 1], _EVEN, _ODD) for j in range(0, len(level), 2)]
        total = cgutils.alloca_once(builder, _VECTOR)
        builder.store(added(level[0], level[1], _LOW, _HIGH), total)
        first = builder.shl(whole, _I64(3))
        with cgutils.for_range(builder, builder.sub(k, first)) as loop:  # the rest, if k is not a multiple of eight
            at = builder.add(first, loop.index)
            factor = builder.load(builder.gep(q.data, [at]))
            products = ir.Constant(_VECTOR, ir.Undefined)
            for lane, row in enumerate(rows):
                product = builder.fmul(factor, builder.load(builder.gep(row, [at])))
                products = builder.insert_element(products, product, _I32(lane))
            builder.store(builder.fadd(builder.load(total), products), total)
        target = builder.bitcast(builder.gep(out.data, [args[5]]), _VECTOR.as_pointer())
        builder.store(builder.load(total), target, align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def adagrad_step(
    _context: Any,
    V: Any,
    GV: Any,
    SV: Any,
    i: Any,  # noqa: ARG001
    gradient: Any,
    old_V: Any,
    old_GV: Any,
    old_SV: Any,
    t: Any,  # noqa: ARG001
    eta: Any,  # noqa: ARG001
    epsilon: Any,  # noqa: ARG001
    twice: Any,  # noqa: ARG001
    kept: Any,  # noqa: ARG001
) -> Any:
    """Take a step of AdaGrad for row i, by row t of the gradient, and update its sensitivities to λ; `twice` is 2λ.

        g = gradient + 2λ V;  G = kept GV + g²;  r = η / √(G + ε);  S = (1 − r 2λ) SV − 2 r V;  V ← V − r g

    Overwritten values go to row t of `old_V`, `old_GV` and `old_SV`. Return whether anything has diverged: V beyond 2⁴⁰, or
    G or S not finite.
    """
    arrays = (V, GV, SV, types.intp, gradient, old_V, old_GV, old_SV, types.intp)
    signature = types.boolean(*arrays, types.float32, types.float32, types.float32, types.float32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def row(place: int, number: Any) -> Any:
            own = context.make_array(signature.args[place])(context, builder, args[place])
            return builder.gep(own.data, [builder.mul(number, builder.extract_value(own.shape, 1))])

        k = builder.extract_value(context.make_array(signature.args[0])(context, builder, args[0]).shape, 1)
        vector, squares, sensitivity = (row(place, args[3]) for place in range(3))
        gradient, *old = (row(place, args[8]) for place in range(4, 8))

        def advance(kind: Any, at: Any) -> Any:
            def same(value: Any) -> Any:
                if kind is _F32:
                    return value
                first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _I32(0))
                return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))

            def place(data: Any) -> Any:
                return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())

            def load(data: Any) -> Any:
                return builder.load(place(data), align=4)

            def store(value: Any, data: Any) -> None:
                builder.store(value, place(data), align=4)

            def beyond(value: Any, exponent: int) -> Any:
                whole = _I32 if kind is _F32 else ir.VectorType(_I32, LANES)
                bits, mask = builder.bitcast(value, whole), same_whole(EXPONENT)
                return builder.icmp_signed(">=", builder.and_(bits, mask), same_whole(exponent))

            def same_whole(value: int) -> Any:
                return _I32(value) if kind is _F32 else ir.Constant(ir.VectorType(_I32, LANES), [value] * LANES)

            one, two = same(_F32(1.0)), same(_F32(2.0))
            eta, epsilon, twice, share = (same(value) for value in args[9:])
            name = "llvm.sqrt.f32" if kind is _F32 else f"llvm.sqrt.v{LANES}f32"
            root = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
            v, before, s = load(vector), load(squares), load(sensitivity)
            g = builder.fadd(load(gradient), builder.fmul(twice, v))
            G = builder.fadd(builder.fmul(share, before), builder.fmul(g, g))
            rate = builder.fdiv(eta, builder.call(root, [builder.fadd(G, epsilon)]))
            kept = builder.fmul(builder.fsub(one, builder.fmul(rate, twice)), s)
            S = builder.fsub(kept, builder.fmul(builder.fmul(two, rate), v))
            new = builder.fsub(v, builder.fmul(rate, g))
            for value, data in ((v, old[0]), (before, old[1]), (s, old[2]), (new, vector), (G, squares), (S, sensitivity)):
                store(value, data)
            lost = builder.or_(beyond(G, EXPONENT), beyond(S, EXPONENT))
            return builder.or_(lost, beyond(new, DIVERGED))

        whole, flags = builder.lshr(k, _I64(3)), ir.VectorType(ir.IntType(1), LANES)
        lost, lost_one = cgutils.alloca_once(builder, flags), cgutils.alloca_once(builder, ir.IntType(1))
        builder.store(ir.Constant(flags, [0] * LANES), lost)
        builder.store(ir.IntType(1)(0), lost_one)
        with cgutils.for_range(builder, whole) as loop:
            found = advance(_VECTOR, builder.shl(loop.index, _I64(3)))
            builder.store(builder.or_(builder.load(lost), found), lost)
        first = builder.shl(whole, _I64(3))
        with cgutils.for_range(builder, builder.sub(k, first)) as loop:
            found = advance(_F32, builder.add(first, loop.index))
            builder.store(builder.or_(builder.load(lost_one), found), lost_one)
        packed = builder.bitcast(builder.load(lost), ir.IntType(LANES))
        return builder.or_(builder.icmp_unsigned("!=", packed, ir.IntType(LANES)(0)), builder.load(lost_one))

    return signature, generate


@intrinsic
def prefetch(_context: Any, array: Any, place: Any, count: Any) -> Any:  # noqa: ARG001
    """Prefetch `count` elements from `place` on, in memory order. Changes nothing."""
    signature = types.void(array, types.intp, types.intp)
    line = 64

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own = context.make_array(signature.args[0])(context, builder, args[0])
        width = signature.args[0].dtype.bitwidth // 8
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        first = builder.bitcast(builder.gep(own.data, [args[1]]), byte)
        lines = builder.lshr(builder.add(builder.mul(args[2], _I64(width)), _I64(line - 1)), _I64(6))
        with cgutils.for_range(builder, lines) as loop:
            at = builder.gep(first, [builder.mul(loop.index, _I64(line))])
            builder.call(ask, [at, _I32(0), _I32(3), _I32(1)])  # for reading, high locality, data cache
        return context.get_dummy_value()

    return signature, generate


@inlined
def dots(V: Floats, column: Integers, start: int, stop: int, q: Floats, out: Floats) -> None:
    """Write out[n] = ⟨V[column[start + n]], q⟩ for every n below stop − start."""
    if _CHECKED:  # the intrinsic reads rows unchecked, so check bounds here when Numba's checks are on
        for n in range(start, stop):
            out[n - start] = V[column[n]].sum()
    whole = stop - (stop - start) % LANES
    for n in range(start, whole, LANES):
        _eight_dots(V, column, n, q, out, n - start)
    if whole < stop:  # the rest is padded to eight, so that a row's sum does not depend on its place
        last, room = np.empty(LANES, np.int32), np.empty(LANES, np.float32)
        for lane in range(LANES):
            last[lane] = column[min(whole + lane, stop - 1)]
        _eight_dots(V, last, 0, q, room, 0)
        for n in range(whole, stop):
            out[n - start] = room[n - whole]
