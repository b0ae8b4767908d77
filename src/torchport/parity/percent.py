"""A share in percent, as all text of torchport writes it."""

from decimal import ROUND_FLOOR, Decimal


def percent(share: float) -> str:
    """Floored to a tenth, so that 100 % is always all of it; what is less than a tenth and not nothing says so."""
    tenths = Decimal(str(share)).quantize(Decimal("0.001"), ROUND_FLOOR)
    if share > 0 and not tenths:
        return "< 0.1 %"
    return f"{tenths * 100:.1f} %"
