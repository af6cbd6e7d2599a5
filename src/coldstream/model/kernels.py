"""Kernels of the factorization machine. They take arrays and scalars, change arrays in place and validate nothing.

Shapes: d columns, k factors, F fields, c candidates.
    w (d,)  V (d, k)  field (d,)             the parameters, and the field of each column
    column, value (nz,)                      a sparse vector
    offset (c + 1,)                          where each candidate's own features begin in a sparse vector of all

One event has a context x, fixed by the request, and c candidates: the item that was chosen and the negatives. A plain (x, y)
sample is the case of one candidate without features. The order of the sums is the order written here, so that the same event
gives the same bits on every machine; sums over factors run along the vector registers, never across them.
"""

import numpy as np

from coldstream.features.sparse import Sparse
from coldstream.model.losses import gradients
from coldstream.model.renewal import LAST, surprise_of
from coldstream.model.shapes import (
    ACROSS,
    FROM_ITSELF,
    Candidates,
    Gradient,
    OptimizerState,
    Rows,
    Theta,
    Touched,
    UpdateRule,
)
from coldstream.model.updates import update
from coldstream.model.vectors import dots, prefetch
from coldstream.support.arrays import Doubles, Floats, Integers
from coldstream.support.compiled import inlined, kernel


@kernel
def fold(theta: Theta, pairs: int, x: Sparse, total: Floats) -> float:
    """Write Σ x v into `total` and return Σ w x + Σ of the pairs within x: one side as one bias and one vector."""
    k = theta.V.shape[1]
    if pairs == ACROSS:
        return _add_up(theta, x, total)
    return _fold(theta, pairs, x, 0, len(x.column), total.reshape((1, k)), 0, np.empty(k, np.float32))


@kernel
def predict(theta: Theta, pairs: int, x: Sparse) -> float:
    """Return ŷ(x) of a plain sample."""
    total = np.empty(theta.V.shape[1], np.float32)
    return float(theta.w0[0]) + fold(theta, pairs, x, total)


@kernel
def learn(
    rows: Rows,
    state: OptimizerState,
    rule: UpdateRule,
    x: Sparse,
    candidates: Candidates,
    target: float,
    weight: float,
    at: int,
) -> bool:
    """Learn one weighted event: predict, adapt λ, update Θ. Return False, with nothing changed, if a result diverged."""
    touched = _touched(state, x, candidates)
    _ask_for_rows(rows, touched.column)
    columns, k = len(touched.column), rows.V.shape[1]
    gradient = Gradient(touched.column, np.zeros(columns, np.float32), np.zeros((columns, k), np.float32))
    theta = Theta(state.w0, rows.w, rows.V, rows.field)
    g = np.empty(len(candidates.offset) - 1, np.float64)
    if rule.pairs == ACROSS:
        g_sum = _contrast_across(theta, rule, x, candidates, target, weight, touched, g, gradient)
    else:
        g_sum = _contrast_all(theta, rule, x, candidates, target, weight, touched, g, gradient)
    if not update(rows, state, rule, g_sum, gradient, at):
        return False
    if rule.renewal > 0.0 and weight > 0.0:  # a negative weight marks no choice, and weight 0 gives no surprise
        state.surprise[LAST] = surprise_of(g[0] / weight)
    return True


@inlined
def _touched(state: OptimizerState, x: Sparse, candidates: Candidates) -> Touched:
    """Return the columns of an event, each once, and set `state.place` to the place of each column among them."""
    entries = candidates.offset[len(candidates.offset) - 1]
    column = np.empty(len(x.column) + entries, np.int32)
    entry = np.empty(entries, np.int32)
    found = len(x.column)
    for n in range(found):
        column[n] = x.column[n]
        state.place[x.column[n]] = n
    for n in range(entries):
        i = candidates.x.column[n]
        place = state.place[i]
        if place < 0:
            place = state.place[i] = found
            column[found] = i
            found += 1
        entry[n] = place
    return Touched(column[:found], entry)


@inlined
def _ask_for_rows(rows: Rows, column: Integers) -> None:
    """Prefetch rows in the order in which they will be read, because rows of a large catalogue are in no cache."""
    k = rows.V.shape[1]
    for n in range(len(column)):
        prefetch(rows.V, column[n] * k, k)
        prefetch(rows.w, column[n], 1)
        prefetch(rows.field, column[n], 1)
    for n in range(len(column)):
        prefetch(rows.touched_at, column[n], 1)
        if len(rows.Sw):
            prefetch(rows.SV, column[n] * k, k)
            prefetch(rows.Sw, column[n], 1)
        if len(rows.Gw):
            prefetch(rows.GV, column[n] * k, k)
            prefetch(rows.Gw, column[n], 1)


# Pairs across the two sides


@inlined
def _contrast_across(
    theta: Theta,
    rule: UpdateRule,
    x: Sparse,
    candidates: Candidates,
    target: float,
    weight: float,
    touched: Touched,
    g: Doubles,
    out: Gradient,
) -> float:
    """Write the gradients of an event whose pairs have one feature of the context and one of the candidate; return Σg.

    Every feature f of the candidates then adds x_f t_f with t_f = w_f + ⟨q, v_f⟩, computed once. In the backward pass, with
    G_f = Σ g_j x_jf, its gradients are G_f and G_f q, and those of a feature of the context are x_c Σ g and x_c Σ_f G_f v_f.
    """
    k, context, columns = theta.V.shape[1], len(x.column), len(touched.column)
    q, p = np.empty(k, np.float32), np.zeros(k, np.float32)
    fixed = float(theta.w0[0]) + _add_up(theta, x, q)
    t = np.empty(columns - context, np.float32)
    dots(theta.V, touched.column, context, columns, q, t)
    for n in range(len(t)):
        t[n] += theta.w[touched.column[context + n]]
    c = len(candidates.offset) - 1
    y = np.empty(c, np.float64)
    for j in range(c):
        y[j] = fixed
        for n in range(candidates.offset[j], candidates.offset[j + 1]):
            y[j] += candidates.x.value[n] * t[touched.entry[n] - context]
    g_sum = gradients(rule.loss, target, weight, y, g)
    for j in range(c):
        gj = np.float32(g[j])
        for n in range(candidates.offset[j], candidates.offset[j + 1]):
            out.w[touched.entry[n]] += gj * candidates.x.value[n]
    for n in range(context, columns):
        G, i = out.w[n], touched.column[n]
        for f in range(k):
            p[f] += G * theta.V[i, f]
            out.V[n, f] = G * q[f]
    total = np.float32(g_sum)
    for n in range(context):
        value = x.value[n]
        out.w[n] = value * total
        for f in range(k):
            out.V[n, f] = value * p[f]
    return g_sum


@inlined
def _add_up(theta: Theta, x: Sparse, total: Floats) -> float:
    """Write Σ x v into `total` and return Σ w x."""
    linear = 0.0
    for f in range(len(total)):
        total[f] = np.float32(0.0)
    for n in range(len(x.column)):
        i, value = x.column[n], x.value[n]
        linear += theta.w[i] * value
        for f in range(len(total)):
            total[f] += value * theta.V[i, f]
    return linear


# All pairs

# Rows of `sums`: the folded context, a buffer for a sum over the candidates, and each folded candidate.
_CONTEXT, _TOTAL, _FIRST = 0, 1, 2


@inlined
def _contrast_all(
    theta: Theta,
    rule: UpdateRule,
    x: Sparse,
    candidates: Candidates,
    target: float,
    weight: float,
    touched: Touched,
    g: Doubles,
    out: Gradient,
) -> float:
    """Write the gradients of an event in which all features interact; return Σg."""
    sums = np.empty((len(candidates.offset) + 1, theta.V.shape[1]), np.float32)
    g_sum = _forward(theta, rule, x, candidates, target, weight, sums, g)
    _backward(theta, rule, x, candidates, sums, g, g_sum, touched, out)
    return g_sum


@inlined
def itself(pairs: int) -> np.float32:
    """Return the share of a feature's pair with itself: 1 for j ≥ i, 0 for j > i."""
    return np.float32(1.0) if pairs == FROM_ITSELF else np.float32(0.0)


@inlined
def _fold(theta: Theta, pairs: int, x: Sparse, start: int, stop: int, sums: Floats, row: int, products: Floats) -> float:
    """Fold the entries from `start` to `stop` of x: write Σ x v to a row of `sums`, return their score without w0.

    Each feature is multiplied by the sum of those before it. That equals ½(S² − Q) without the cancellation, in which one
    large value would drown all the others.
    """
    k = sums.shape[1]
    for f in range(k):
        sums[row, f] = np.float32(0.0)
        products[f] = np.float32(0.0)
    own = itself(pairs)
    linear = 0.0
    for n in range(start, stop):
        i, value = x.column[n], x.value[n]
        linear += theta.w[i] * value
        for f in range(k):
            a = value * theta.V[i, f]
            products[f] += a * (sums[row, f] + own * a)
            sums[row, f] += a
    total = 0.0
    for f in range(k):
        total += products[f]
    return linear + total


@inlined
def _dot(sums: Floats, a: int, b: int) -> float:
    """Return the dot product of two rows, in four interleaved sums: a fixed order that still allows parallel execution."""
    k = sums.shape[1]
    whole = k - k % 4
    s0 = s1 = s2 = s3 = 0.0
    for f in range(0, whole, 4):
        s0 += sums[a, f] * sums[b, f]
        s1 += sums[a, f + 1] * sums[b, f + 1]
        s2 += sums[a, f + 2] * sums[b, f + 2]
        s3 += sums[a, f + 3] * sums[b, f + 3]
    for f in range(whole, k):
        s0 += sums[a, f] * sums[b, f]
    return (s0 + s2) + (s1 + s3)


@inlined
def _forward(
    theta: Theta,
    rule: UpdateRule,
    x: Sparse,
    candidates: Candidates,
    target: float,
    weight: float,
    sums: Floats,
    g: Doubles,
) -> float:
    """Predict every candidate; write the factor sums to `sums` and the gradients of the scores to g, and return Σg."""
    y = np.empty(len(g), np.float64)
    room = np.empty(sums.shape[1], np.float32)
    context = theta.w0[0] + _fold(theta, rule.pairs, x, 0, len(x.column), sums, _CONTEXT, room)
    offset = candidates.offset
    for j in range(len(g)):
        own = _fold(theta, rule.pairs, candidates.x, offset[j], offset[j + 1], sums, _FIRST + j, room)
        y[j] = context + own + _dot(sums, _CONTEXT, _FIRST + j)
    return gradients(rule.loss, target, weight, y, g)


@inlined
def _backward(
    theta: Theta,
    rule: UpdateRule,
    x: Sparse,
    candidates: Candidates,
    sums: Floats,
    g: Doubles,
    g_sum: float,
    touched: Touched,
    out: Gradient,
) -> None:
    """Write the gradients of every touched column."""
    k = sums.shape[1]
    sign, total = np.float32(2.0) * itself(rule.pairs) - np.float32(1.0), np.float32(g_sum)
    for f in range(k):
        sums[_TOTAL, f] = np.float32(0.0)
    for j in range(len(g)):
        gj = np.float32(g[j])
        for f in range(k):
            sums[_TOTAL, f] += gj * sums[_FIRST + j, f]
    for t in range(len(x.column)):
        i, value = x.column[t], x.value[t]
        out.w[t] = value * total
        for f in range(k):
            out.V[t, f] = value * (total * (sums[_CONTEXT, f] + sign * value * theta.V[i, f]) + sums[_TOTAL, f])
    for j in range(len(g)):
        gj = np.float32(g[j])
        for f in range(k):
            sums[_FIRST + j, f] += sums[_CONTEXT, f]
        for n in range(candidates.offset[j], candidates.offset[j + 1]):
            i, value, t = candidates.x.column[n], candidates.x.value[n], touched.entry[n]
            gx = gj * value
            out.w[t] += gx
            for f in range(k):
                out.V[t, f] += gx * (sums[_FIRST + j, f] + sign * value * theta.V[i, f])
