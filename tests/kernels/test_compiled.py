"""How kernels are compiled."""

from coldstream.model.compiled import inlined, kernel, scan_kernel


def test_what_learns_is_exact_whoever_compiled_its_parts_first() -> None:
    @inlined
    def rounded_away(small: float, large: float) -> float:
        return (small + large) - large

    @scan_kernel
    def scans(small: float, large: float) -> float:
        return rounded_away(small, large)

    @kernel
    def learns(small: float, large: float) -> float:
        return rounded_away(small, large)

    scans(1e-20, 1.0)
    assert learns(1e-20, 1.0) == 0.0


def test_a_kernel_called_from_a_scan_stays_exact() -> None:
    @kernel
    def rounded_away(small: float, large: float) -> float:
        return (small + large) - large

    @scan_kernel
    def scans(small: float, large: float) -> float:
        return rounded_away(small, large)

    scans(1e-20, 1.0)
    assert rounded_away(1e-20, 1.0) == 0.0
