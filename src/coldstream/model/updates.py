"""Updates of λ and Θ from the gradient of an event; an update that diverges is undone."""

import math

import numpy as np

from coldstream.model.renewal import kept_of
from coldstream.model.shapes import (
    ADAGRAD,
    PAPER,
    PER_FIELD,
    Gradient,
    OptimizerState,
    Overwritten,
    Penalty,
    Rows,
    UpdateRule,
)
from coldstream.model.vectors import DIVERGED, EXPONENT, adagrad_step
from coldstream.support.arrays import Doubles, Floats, Integers
from coldstream.support.compiled import inlined

_MEMORY_OF_SCALE = 0.99  # per event, for the running root mean square of a field's λ-gradient
_LARGEST_STEP = 3.0  # in units of this root mean square
_LOWEST_LAMBDA, _HIGHEST_LAMBDA = 1e-8, 1e2
_EXPONENT, _DIVERGED = np.int32(EXPONENT), np.int32(DIVERGED)


@inlined
def update(rows: Rows, state: OptimizerState, rule: UpdateRule, g_sum: float, gradient: Gradient, at: int) -> bool:
    """Adapt λ, update Θ, and store the position in touched rows. Return False, with nothing changed, if a result diverged.

    `state.place` must still hold the index of each column in the gradient; it is cleared here.
    """
    k, touched = rows.V.shape[1], len(gradient.column)
    lambda0, penalty = float(state.lambda0[0]), _penalties(rows, state, rule, gradient.column)
    if rule.adapt and rule.regularization == PAPER:
        lambda0 = _adapt_paper(state, rule, g_sum, gradient, penalty)
    elif rule.adapt and rule.regularization == PER_FIELD:
        _adapt_per_field(rows, rule, gradient, penalty)
    for t in range(touched):
        state.place[gradient.column[t]] = -1

    adagrad, per_field = rule.optimizer == ADAGRAD, rule.regularization == PER_FIELD
    squares, sensitivities = touched if adagrad else 0, touched if per_field else 0
    old = Overwritten(
        np.empty(touched, np.float32),
        np.empty((touched, k), np.float32),
        np.empty(squares, np.float32),
        np.empty((squares, k), np.float32),
        np.empty(sensitivities, np.float32),
        np.empty((sensitivities, k), np.float32),
    )
    sound = _step_vectors(rows, state, rule, gradient, penalty, old)
    sound &= _step_weights(rows, state, rule, gradient, penalty, old)
    w0, G0 = _step_intercept(state, rule, g_sum, lambda0)
    sound = sound and abs(float(w0)) < 2.0**40 and math.isfinite(G0 + lambda0)
    for n in range(len(penalty.w)):  # a lost λ makes its parameters useless; all factors of a row share it, so one tells
        sound = sound and math.isfinite(penalty.w[n]) and (k == 0 or math.isfinite(penalty.V[n, 0]))
    if sound:
        _remember(rows, state, rule, gradient.column, old, w0, G0, at)
        state.lambda0[0] = lambda0
        _commit_penalties(state, penalty)
    else:
        _take_back(rows, gradient.column, old)
    return bool(sound)


@inlined
def _penalties(rows: Rows, state: OptimizerState, rule: UpdateRule, column: Integers) -> Penalty:
    """Return the λ of the groups that an event touches, copied, because there may be many more fields."""
    k, touched = state.lambda_V.shape[1], len(column)
    if rule.regularization != PER_FIELD:  # one group, and no running mean square to update
        return Penalty(
            np.zeros(1, np.int32), column, state.lambda_w.copy(), state.lambda_V.copy(), state.penalty_mean_square
        )
    of, group = np.empty(touched, np.int32), np.empty(touched, np.int32)
    place = np.full(len(state.lambda_w), -1, np.int32)
    count = 0
    for t in range(touched):
        field = rows.field[column[t]]
        if place[field] < 0:
            place[field] = count
            group[count] = field
            count += 1
        of[t] = place[field]
    w, V, scale = np.empty(count, np.float64), np.empty((count, k), np.float64), np.empty((2, count), np.float64)
    for n in range(count):
        w[n] = state.lambda_w[group[n]]
        scale[0, n] = state.penalty_mean_square[0, group[n]]
        scale[1, n] = state.penalty_mean_square[1, group[n]]
        for f in range(k):
            V[n, f] = state.lambda_V[group[n], f]
    return Penalty(group[:count], of, w, V, scale)


@inlined
def _commit_penalties(state: OptimizerState, penalty: Penalty) -> None:
    for n in range(len(penalty.group)):
        group = penalty.group[n]
        state.lambda_w[group] = penalty.w[n]
        state.penalty_mean_square[0, group] = penalty.mean_square[0, n]
        state.penalty_mean_square[1, group] = penalty.mean_square[1, n]
        for f in range(penalty.V.shape[1]):
            state.lambda_V[group, f] = penalty.V[n, f]


@inlined
def _adapt_paper(state: OptimizerState, rule: UpdateRule, g_sum: float, gradient: Gradient, penalty: Penalty) -> float:
    """Update λ ← max(0, λ − η ∂ℓ/∂λ), where ŷ depends on λ through the previous update; return the new λ0."""
    k = penalty.V.shape[1]
    H = np.zeros(k, np.float32)
    Hw = np.float32(0.0)
    for n in range(state.touches[0]):
        t = state.place[state.touched[n]]
        if t >= 0:
            Hw += gradient.w[t] * state.sw[n]
            for f in range(k):
                H[f] += gradient.V[t, f] * state.sV[n, f]
    penalty.w[0] = max(0.0, penalty.w[0] - rule.eta * Hw)
    for f in range(k):
        penalty.V[0, f] = max(0.0, penalty.V[0, f] - rule.eta * H[f])
    return max(0.0, float(state.lambda0[0]) - rule.eta * g_sum * float(state.s0[0]))


@inlined
def _adapt_per_field(rows: Rows, rule: UpdateRule, gradient: Gradient, penalty: Penalty) -> None:
    """Update λ_g ← λ_g · exp(−ρ · clip(H_g / rms(H_g), ±3)) for the fields that this event touches."""
    groups, k = penalty.V.shape
    H = np.zeros((groups, k), np.float32)
    Hw = np.zeros(groups, np.float64)
    for t in range(len(gradient.column)):
        i, n = gradient.column[t], penalty.of[t]
        Hw[n] += gradient.w[t] * rows.Sw[i]
        for f in range(k):
            H[n, f] += gradient.V[t, f] * rows.SV[i, f]
    for n in range(groups):
        total = 0.0
        for f in range(k):
            total += H[n, f]
        penalty.w[n] = _log_step(penalty.w[n], rule.rho, Hw[n], penalty.mean_square, 0, n)
        if k > 0:
            moved = _log_step(penalty.V[n, 0], rule.rho, total, penalty.mean_square, 1, n)
            for f in range(k):
                penalty.V[n, f] = moved


@inlined
def _log_step(penalty: float, rho: float, H: float, scale: Doubles, part: int, group: int) -> float:
    """Return λ after one step of log λ against the gradient H, and update the running mean square of H in `scale`."""
    if H == 0.0:
        return penalty
    mean = scale[part, group]
    mean = H * H if mean == 0.0 else mean + (1.0 - _MEMORY_OF_SCALE) * (H * H - mean)
    scale[part, group] = mean
    step = min(_LARGEST_STEP, max(-_LARGEST_STEP, H / math.sqrt(mean)))
    return min(_HIGHEST_LAMBDA, max(_LOWEST_LAMBDA, penalty * math.exp(-rho * step)))


@inlined
def _step_vectors(
    rows: Rows, state: OptimizerState, rule: UpdateRule, gradient: Gradient, penalty: Penalty, old: Overwritten
) -> bool:
    """Update V ← V − η (∂ℓ/∂V + 2λV) in the touched rows; return whether all results are valid."""
    k, lost = rows.V.shape[1], 0
    adagrad, per_field = rule.optimizer == ADAGRAD, rule.regularization == PER_FIELD
    eta, epsilon, one, two = np.float32(rule.eta), np.float32(rule.epsilon), np.float32(1.0), np.float32(2.0)
    rate, twice, step = np.full(k, eta, np.float32), np.empty(k, np.float32), np.empty(k, np.float32)
    row = -1
    for t in range(len(gradient.column)):
        i, n = gradient.column[t], penalty.of[t] if per_field else 0
        if n != row:  # 2λ of this column's group, for every factor
            row = n
            for f in range(k):
                twice[f] = np.float32(2.0 * penalty.V[n, f])
        kept = kept_of(state, rule, rows.touched_at[i])
        if not state.factored[rows.field[i]]:
            _copy(rows.V[i], old.V[t])
            if adagrad:
                _copy(rows.GV[i], old.GV[t])
            if per_field:
                _copy(rows.SV[i], old.SV[t])
            continue
        if adagrad and per_field:  # one λ for all factors
            own = twice[0] if k else one
            lost |= adagrad_step(rows.V, rows.GV, rows.SV, i, gradient.V, old.V, old.GV, old.SV, t, eta, epsilon, own, kept)
            continue
        _copy(rows.V[i], old.V[t])
        for f in range(k):
            step[f] = gradient.V[t, f] + twice[f] * old.V[t, f]
        if adagrad:
            _copy(rows.GV[i], old.GV[t])
            for f in range(k):
                rows.GV[i, f] = kept * old.GV[t, f] + step[f] * step[f]
            for f in range(k):
                rate[f] = eta / np.sqrt(rows.GV[i, f] + epsilon)
            lost |= _beyond(_EXPONENT, rows.GV[i])
        if per_field:
            _copy(rows.SV[i], old.SV[t])
            for f in range(k):
                rows.SV[i, f] = (one - rate[f] * twice[f]) * old.SV[t, f] - two * rate[f] * old.V[t, f]
            lost |= _beyond(_EXPONENT, rows.SV[i])
        for f in range(k):
            rows.V[i, f] = old.V[t, f] - rate[f] * step[f]
        lost |= _beyond(_DIVERGED, rows.V[i])
    return lost == 0


@inlined
def _step_weights(
    rows: Rows, state: OptimizerState, rule: UpdateRule, gradient: Gradient, penalty: Penalty, old: Overwritten
) -> bool:
    """Update w ← w − η (∂ℓ/∂w + 2λw) of the touched columns; return whether all results are valid.

    Values are gathered, updated as vectors, and scattered.
    """
    touched = len(gradient.column)
    adagrad, per_field = rule.optimizer == ADAGRAD, rule.regularization == PER_FIELD
    eta, epsilon, one, two = np.float32(rule.eta), np.float32(rule.epsilon), np.float32(1.0), np.float32(2.0)
    twice, rate, new = np.empty(touched, np.float32), np.full(touched, eta, np.float32), np.empty(touched, np.float32)
    lost = 0
    for t in range(touched):
        i = gradient.column[t]
        old.w[t] = rows.w[i]
        twice[t] = np.float32(2.0 * penalty.w[penalty.of[t] if per_field else 0])
        if adagrad:
            old.Gw[t] = rows.Gw[i]
        if per_field:
            old.Sw[t] = rows.Sw[i]
    for t in range(touched):
        new[t] = gradient.w[t] + twice[t] * old.w[t] if rule.linear else np.float32(0.0)
    if adagrad:
        squares = np.empty(touched, np.float32)
        for t in range(touched):
            squares[t] = kept_of(state, rule, rows.touched_at[gradient.column[t]]) * old.Gw[t] + new[t] * new[t]
        for t in range(touched):
            rate[t] = eta / np.sqrt(squares[t] + epsilon)
        for t in range(touched):
            rows.Gw[gradient.column[t]] = squares[t]
        lost |= _beyond(_EXPONENT, squares)
    if per_field:
        moved = np.empty(touched, np.float32)
        for t in range(touched):
            moved[t] = (one - rate[t] * twice[t]) * old.Sw[t] - two * rate[t] * old.w[t]
        for t in range(touched):
            rows.Sw[gradient.column[t]] = moved[t]
        lost |= _beyond(_EXPONENT, moved)
    for t in range(touched):
        new[t] = old.w[t] - rate[t] * new[t]
    for t in range(touched):
        rows.w[gradient.column[t]] = new[t]
    return (lost | _beyond(_DIVERGED, new)) == 0


@inlined
def _step_intercept(state: OptimizerState, rule: UpdateRule, g_sum: float, lambda0: float) -> tuple[np.float32, np.float32]:
    """Return the updated w0 and its AdaGrad sum."""
    old, G, rate = state.w0[0], state.G0[0], np.float32(rule.eta)
    if rule.intercept:
        gradient = np.float32(g_sum) + np.float32(2.0) * np.float32(lambda0) * old
        if rule.optimizer == ADAGRAD:
            G = np.float32(rule.kept) * G + gradient * gradient
            rate = np.float32(rule.eta) / np.sqrt(G + np.float32(rule.epsilon))
        old -= rate * gradient
    return old, G


@inlined
def _remember(
    rows: Rows,
    state: OptimizerState,
    rule: UpdateRule,
    column: Integers,
    old: Overwritten,
    w0: np.float32,
    G0: np.float32,
    at: int,
) -> None:
    """Store w0 and the touched columns of an applied update, and the sensitivities for the paper's next λ-gradient."""
    k, touched = rows.V.shape[1], len(column)
    if rule.regularization == PAPER:  # the sensitivities follow from the overwritten values
        adagrad, eta, epsilon, two = (
            rule.optimizer == ADAGRAD,
            np.float32(rule.eta),
            np.float32(rule.epsilon),
            np.float32(2.0),
        )
        rate = eta / np.sqrt(G0 + epsilon) if adagrad else eta
        state.s0[0] = -two * rate * state.w0[0]
        for t in range(touched):
            i = column[t]
            rate = eta / np.sqrt(rows.Gw[i] + epsilon) if adagrad else eta
            state.sw[t] = -two * rate * old.w[t]
            if adagrad:
                for f in range(k):
                    state.sV[t, f] = -two * (eta / np.sqrt(rows.GV[i, f] + epsilon)) * old.V[t, f]
            else:
                for f in range(k):
                    state.sV[t, f] = -two * eta * old.V[t, f]
    state.w0[0], state.G0[0] = w0, G0
    for t in range(touched):
        state.touched[t] = column[t]
        rows.touched_at[column[t]] = at
    state.touches[0] = touched


@inlined
def _take_back(rows: Rows, column: Integers, old: Overwritten) -> None:
    for t in range(len(column)):
        i = column[t]
        rows.w[i] = old.w[t]
        _copy(old.V[t], rows.V[i])
        if len(old.Gw):
            rows.Gw[i] = old.Gw[t]
            _copy(old.GV[t], rows.GV[i])
        if len(old.Sw):
            rows.Sw[i] = old.Sw[t]
            _copy(old.SV[t], rows.SV[i])


@inlined
def _copy(source: Floats, target: Floats) -> None:
    for f in range(len(source)):
        target[f] = source[f]


@inlined
def _beyond(exponent: np.int32, values: Floats) -> int:
    """Return whether any float32 has at least this exponent. Integers compare well in vector registers."""
    found, bits = 0, values.view(np.int32)
    for n in range(len(bits)):
        found |= int((bits[n] & _EXPONENT) >= exponent)
    return found
