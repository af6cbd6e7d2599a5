"""The loops of the factorization machine. They take arrays and scalars, change arrays in place and validate nothing.

Shapes: d columns, k factors, F fields, c candidates.
    w (d,)  V (d, k)  field (d,)             the parameters, and the field each column belongs to
    column, value (nz,)                      one sparse vector
    offset (c + 1,)                          where each candidate's own features begin in a sparse vector of all

One event has a context x, fixed by the request, and c candidates: the item that was chosen and the negatives. A plain
(x, y) sample is the case of one candidate that brings no features. The order of the sums is the order written here, so the
same event gives the same bits everywhere; sums over factors run along the vector registers, never across them.
"""

import math

import numpy as np

from coldstream.arrays import Doubles, Floats, Integers
from coldstream.features.sparse import Sparse
from coldstream.model.compiled import inlined, kernel
from coldstream.model.losses import gradients
from coldstream.model.shapes import (
    ADAGRAD,
    PAPER,
    PER_FIELD,
    Candidates,
    Gradient,
    Memory,
    New,
    Penalty,
    Rule,
    Theta,
)

_MEMORY_OF_SCALE = 0.99  # per event, for the running root mean square of a field's λ-gradient
_LARGEST_STEP = 3.0  # in units of that root mean square
_LOWEST_LAMBDA, _HIGHEST_LAMBDA = 1e-8, 1e2
_EXPONENT = np.int32(0x7F800000)  # the exponent bits of a float32: all ones where it is infinite or not a number
_DIVERGED = np.int32((127 + 40) << 23)  # the exponent of 2⁴⁰: a parameter that large is lost, and its scores overflow next


@kernel
def fold(theta: Theta, sign: float, x: Sparse, total: Floats) -> float:
    """Write Σ x v into `total` and return Σ w x + Σ of the pairs: a part of x as one bias and one vector."""
    k = theta.V.shape[1]
    return _fold(theta, sign, x, 0, len(x.column), total.reshape((1, k)), 0, np.empty(k, np.float32))


@kernel
def predict(theta: Theta, sign: float, x: Sparse) -> float:
    """ŷ(x)."""
    total = np.empty(theta.V.shape[1], np.float32)
    return float(theta.w0[0]) + fold(theta, sign, x, total)


@kernel
def learn(theta: Theta, memory: Memory, rule: Rule, x: Sparse, candidates: Candidates, target: float) -> bool:
    """One event: predict, adapt λ, update Θ. False, and nothing changed, where a result has diverged."""
    k = theta.V.shape[1]
    c = len(candidates.offset) - 1
    sums = np.empty((c + 2, k), np.float32)
    g = np.empty(c, np.float64)
    g_sum = _forward(theta, rule, x, candidates, target, sums, g)

    room = len(x.column) + candidates.offset[c]
    gradient = Gradient(np.empty(room, np.int32), np.empty(room, np.float32), np.empty((room, k), np.float32))
    touched = _backward(theta, memory, rule, x, candidates, sums, g, g_sum, gradient)

    lambda0, penalty = float(memory.lambda0[0]), _penalties(theta, memory, rule, touched, gradient.column)
    if rule.adapt and rule.regularization == PAPER:
        lambda0 = _adapt_paper(memory, rule, g_sum, gradient, penalty)
    elif rule.adapt and rule.regularization == PER_FIELD:
        _adapt_per_field(memory, rule, touched, gradient, penalty)
    for t in range(touched):
        memory.position[gradient.column[t]] = -1

    adagrad, per_field = rule.optimizer == ADAGRAD, rule.regularization == PER_FIELD
    w, V = gradient.w, gradient.V
    Gw, GV = (np.empty_like(w), np.empty_like(V)) if adagrad else (w, V)
    Sw, SV = (np.empty_like(w), np.empty_like(V)) if per_field else (w, V)
    new = New(w, V, Gw, GV, Sw, SV)
    _update(theta, memory, rule, touched, gradient, penalty, new)
    w0, G0 = _update_intercept(theta, memory, rule, g_sum, lambda0)

    sound = _below(_DIVERGED, w, V, touched) and abs(float(w0)) < 2.0**40 and math.isfinite(G0 + lambda0)
    for n in range(len(penalty.w)):  # a λ that is lost has lost its parameters too; one of a row is enough to tell
        sound = sound and math.isfinite(penalty.w[n]) and (k == 0 or math.isfinite(penalty.V[n, 0]))
    sound = sound and (not adagrad or _below(_EXPONENT, Gw, GV, touched))
    sound = sound and (not per_field or _below(_EXPONENT, Sw, SV, touched))
    if sound:
        memory.lambda0[0] = lambda0
        _commit(theta, memory, rule, touched, gradient.column, new, w0, G0)
        _commit_penalties(memory, penalty)
    return bool(sound)


@inlined
def _fold(theta: Theta, sign: float, x: Sparse, start: int, stop: int, sums: Floats, row: int, pairs: Floats) -> float:
    """The loop behind `fold`.

    Each feature is multiplied with the sum of those before it. That is ½(S² − Q) without its cancellation: one feature of
    a large value would drown all the others in it.
    """
    k = sums.shape[1]
    for f in range(k):
        sums[row, f] = np.float32(0.0)
        pairs[f] = np.float32(0.0)
    itself = np.float32(0.5 + 0.5 * sign)
    linear = 0.0
    for n in range(start, stop):
        i, value = x.column[n], x.value[n]
        linear += theta.w[i] * value
        for f in range(k):
            a = value * theta.V[i, f]
            pairs[f] += a * (sums[row, f] + itself * a)
            sums[row, f] += a
    total = 0.0
    for f in range(k):
        total += pairs[f]
    return linear + total


@inlined
def _dot(sums: Floats, a: int, b: int) -> float:
    """The product of two rows in four interleaved sums: a fixed order that the processor can still overlap."""
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


# Rows of `sums`: what the context folds to, room for a sum over the candidates, and what each candidate folds to.
_CONTEXT, _TOTAL, _FIRST = 0, 1, 2


@inlined
def _forward(theta: Theta, rule: Rule, x: Sparse, candidates: Candidates, target: float, sums: Floats, g: Doubles) -> float:
    """Predict every candidate; leave the factor sums in `sums`, the gradients of the scores in g, and return Σg."""
    y = np.empty(len(g), np.float64)
    room = np.empty(sums.shape[1], np.float32)
    context = theta.w0[0] + _fold(theta, rule.sign, x, 0, len(x.column), sums, _CONTEXT, room)
    offset = candidates.offset
    for j in range(len(g)):
        own = _fold(theta, rule.sign, candidates.x, offset[j], offset[j + 1], sums, _FIRST + j, room)
        y[j] = context + own + _dot(sums, _CONTEXT, _FIRST + j)
    return gradients(rule.loss, target, y, g)


@inlined
def _backward(
    theta: Theta,
    memory: Memory,
    rule: Rule,
    x: Sparse,
    candidates: Candidates,
    sums: Floats,
    g: Doubles,
    g_sum: float,
    out: Gradient,
) -> int:
    """Gradients of every touched column, each once however many candidates share it; returns how many there are."""
    k = sums.shape[1]
    sign, total = np.float32(rule.sign), np.float32(g_sum)
    for f in range(k):
        sums[_TOTAL, f] = np.float32(0.0)
    for j in range(len(g)):
        gj = np.float32(g[j])
        for f in range(k):
            sums[_TOTAL, f] += gj * sums[_FIRST + j, f]
    touched = len(x.column)
    for t in range(touched):
        i, value = x.column[t], x.value[t]
        out.column[t] = i
        memory.position[i] = t
        out.w[t] = value * total
        for f in range(k):
            out.V[t, f] = value * (total * (sums[_CONTEXT, f] + sign * value * theta.V[i, f]) + sums[_TOTAL, f])
    for j in range(len(g)):
        gj = np.float32(g[j])
        for f in range(k):
            sums[_FIRST + j, f] += sums[_CONTEXT, f]
        for n in range(candidates.offset[j], candidates.offset[j + 1]):
            i, value = candidates.x.column[n], candidates.x.value[n]
            t = memory.position[i]
            if t < 0:
                t = touched
                touched += 1
                memory.position[i] = t
                out.column[t] = i
                out.w[t] = np.float32(0.0)
                for f in range(k):
                    out.V[t, f] = np.float32(0.0)
            gx = gj * value
            out.w[t] += gx
            for f in range(k):
                out.V[t, f] += gx * (sums[_FIRST + j, f] + sign * value * theta.V[i, f])
    return touched


@inlined
def _penalties(theta: Theta, memory: Memory, rule: Rule, touched: int, column: Integers) -> Penalty:
    """The λ of the groups that an event touches: of all fields that may be, it copies a few."""
    k = memory.lambda_V.shape[1]
    if rule.regularization != PER_FIELD:  # one group, and no scale that would move
        return Penalty(np.zeros(1, np.int32), column, memory.lambda_w.copy(), memory.lambda_V.copy(), memory.scale)
    of, group = np.empty(touched, np.int32), np.empty(touched, np.int32)
    place = np.full(len(memory.lambda_w), -1, np.int32)
    count = 0
    for t in range(touched):
        field = theta.field[column[t]]
        if place[field] < 0:
            place[field] = count
            group[count] = field
            count += 1
        of[t] = place[field]
    w, V, scale = np.empty(count, np.float64), np.empty((count, k), np.float64), np.empty((2, count), np.float64)
    for n in range(count):
        w[n] = memory.lambda_w[group[n]]
        scale[0, n] = memory.scale[0, group[n]]
        scale[1, n] = memory.scale[1, group[n]]
        for f in range(k):
            V[n, f] = memory.lambda_V[group[n], f]
    return Penalty(group[:count], of, w, V, scale)


@inlined
def _commit_penalties(memory: Memory, penalty: Penalty) -> None:
    for n in range(len(penalty.group)):
        group = penalty.group[n]
        memory.lambda_w[group] = penalty.w[n]
        memory.scale[0, group] = penalty.scale[0, n]
        memory.scale[1, group] = penalty.scale[1, n]
        for f in range(penalty.V.shape[1]):
            memory.lambda_V[group, f] = penalty.V[n, f]


@inlined
def _adapt_paper(memory: Memory, rule: Rule, g_sum: float, gradient: Gradient, penalty: Penalty) -> float:
    """λ ← max(0, λ − η ∂ℓ/∂λ), where λ reaches ŷ through what the previous update wrote; returns the new λ0."""
    k = penalty.V.shape[1]
    H = np.zeros(k, np.float32)
    Hw = np.float32(0.0)
    for n in range(memory.touches[0]):
        t = memory.position[memory.touched[n]]
        if t >= 0:
            Hw += gradient.w[t] * memory.sw[n]
            for f in range(k):
                H[f] += gradient.V[t, f] * memory.sV[n, f]
    penalty.w[0] = max(0.0, penalty.w[0] - rule.eta * Hw)
    for f in range(k):
        penalty.V[0, f] = max(0.0, penalty.V[0, f] - rule.eta * H[f])
    return max(0.0, float(memory.lambda0[0]) - rule.eta * g_sum * float(memory.s0[0]))


@inlined
def _adapt_per_field(memory: Memory, rule: Rule, touched: int, gradient: Gradient, penalty: Penalty) -> None:
    """λ_g ← λ_g · exp(−ρ · clip(H_g / rms(H_g), ±3)) for the fields that this event touches."""
    groups, k = penalty.V.shape
    H = np.zeros((groups, k), np.float32)
    Hw = np.zeros(groups, np.float64)
    for t in range(touched):
        i, n = gradient.column[t], penalty.of[t]
        Hw[n] += gradient.w[t] * memory.Sw[i]
        for f in range(k):
            H[n, f] += gradient.V[t, f] * memory.SV[i, f]
    for n in range(groups):
        total = 0.0
        for f in range(k):
            total += H[n, f]
        penalty.w[n] = _log_step(penalty.w[n], rule.rho, Hw[n], penalty.scale, 0, n)
        if k > 0:
            moved = _log_step(penalty.V[n, 0], rule.rho, total, penalty.scale, 1, n)
            for f in range(k):
                penalty.V[n, f] = moved


@inlined
def _log_step(penalty: float, rho: float, H: float, scale: Doubles, part: int, group: int) -> float:
    """One step of log λ against the gradient H; keeps H's running mean square in `scale`."""
    if H == 0.0:
        return penalty
    mean = scale[part, group]
    mean = H * H if mean == 0.0 else mean + (1.0 - _MEMORY_OF_SCALE) * (H * H - mean)
    scale[part, group] = mean
    step = min(_LARGEST_STEP, max(-_LARGEST_STEP, H / math.sqrt(mean)))
    return min(_HIGHEST_LAMBDA, max(_LOWEST_LAMBDA, penalty * math.exp(-rho * step)))


@inlined
def _update(theta: Theta, memory: Memory, rule: Rule, touched: int, gradient: Gradient, penalty: Penalty, new: New) -> None:
    """θ ← θ − η (∂ℓ/∂θ + 2λθ) for the touched columns, all from the old values, into `new`."""
    k = new.V.shape[1]
    adagrad, per_field = rule.optimizer == ADAGRAD, rule.regularization == PER_FIELD
    eta, epsilon = np.float32(rule.eta), np.float32(rule.epsilon)
    zero, one, two = np.float32(0.0), np.float32(1.0), np.float32(2.0)
    rate, twice = np.full(k, eta, np.float32), np.empty(k, np.float32)
    row = -1
    for t in range(touched):
        i, n = gradient.column[t], penalty.of[t] if per_field else 0
        if n != row:  # 2λ of this column's group, for every factor
            row = n
            for f in range(k):
                twice[f] = np.float32(2.0 * penalty.V[n, f])
        factored = one if memory.factored[theta.field[i]] else zero
        for f in range(k):
            new.V[t, f] = factored * (new.V[t, f] + twice[f] * theta.V[i, f])
        if adagrad:
            for f in range(k):
                new.GV[t, f] = memory.GV[i, f] + new.V[t, f] * new.V[t, f]
            for f in range(k):
                rate[f] = eta / np.sqrt(new.GV[t, f] + epsilon)
        if per_field:
            for f in range(k):
                new.SV[t, f] = (one - rate[f] * twice[f]) * memory.SV[i, f] - two * rate[f] * theta.V[i, f]
        for f in range(k):
            new.V[t, f] = theta.V[i, f] - rate[f] * new.V[t, f]

        old, twice_w = theta.w[i], np.float32(2.0 * penalty.w[n])
        step = new.w[t] + twice_w * old if rule.linear else zero
        w_rate = eta
        if adagrad:
            new.Gw[t] = memory.Gw[i] + step * step
            w_rate = eta / np.sqrt(new.Gw[t] + epsilon)
        if per_field:
            new.Sw[t] = (one - w_rate * twice_w) * memory.Sw[i] - two * w_rate * old
        new.w[t] = old - w_rate * step


@inlined
def _update_intercept(
    theta: Theta, memory: Memory, rule: Rule, g_sum: float, lambda0: float
) -> tuple[np.float32, np.float32]:
    """The same step for w0: its new value and AdaGrad's sum."""
    old, G, rate = theta.w0[0], memory.G0[0], np.float32(rule.eta)
    if rule.intercept:
        gradient = np.float32(g_sum) + np.float32(2.0) * np.float32(lambda0) * old
        if rule.optimizer == ADAGRAD:
            G += gradient * gradient
            rate = np.float32(rule.eta) / np.sqrt(G + np.float32(rule.epsilon))
        old -= rate * gradient
    return old, G


@inlined
def _commit(
    theta: Theta, memory: Memory, rule: Rule, touched: int, column: Integers, new: New, w0: np.float32, G0: np.float32
) -> None:
    k = new.V.shape[1]
    adagrad, eta, epsilon, two = rule.optimizer == ADAGRAD, np.float32(rule.eta), np.float32(rule.epsilon), np.float32(2.0)
    if rule.regularization == PAPER:  # the sensitivities of what is overwritten now, for the next event's λ-gradient
        rate = eta / np.sqrt(G0 + epsilon) if adagrad else eta
        memory.s0[0] = -two * rate * theta.w0[0]
        for t in range(touched):
            i = column[t]
            rate = eta / np.sqrt(new.Gw[t] + epsilon) if adagrad else eta
            memory.sw[t] = -two * rate * theta.w[i]
            if adagrad:
                for f in range(k):
                    memory.sV[t, f] = -two * (eta / np.sqrt(new.GV[t, f] + epsilon)) * theta.V[i, f]
            else:
                for f in range(k):
                    memory.sV[t, f] = -two * eta * theta.V[i, f]
    theta.w0[0] = w0
    memory.G0[0] = G0
    for t in range(touched):
        i = column[t]
        memory.touched[t] = i
        theta.w[i] = new.w[t]
        for f in range(k):
            theta.V[i, f] = new.V[t, f]
        if adagrad:
            memory.Gw[i] = new.Gw[t]
            for f in range(k):
                memory.GV[i, f] = new.GV[t, f]
        if rule.regularization == PER_FIELD:
            memory.Sw[i] = new.Sw[t]
            for f in range(k):
                memory.SV[i, f] = new.SV[t, f]
    memory.touches[0] = touched


@inlined
def _below(exponent: np.int32, a: Floats, B: Floats, rows: int) -> bool:
    """Whether the exponents of the first rows are all smaller; whole numbers compare well in vector registers."""
    bad = 0
    vector, matrix = a.view(np.int32), B.reshape(-1).view(np.int32)
    for n in range(rows):
        bad += (vector[n] & _EXPONENT) >= exponent
    for n in range(rows * B.shape[1]):
        bad += (matrix[n] & _EXPONENT) >= exponent
    return bad == 0
