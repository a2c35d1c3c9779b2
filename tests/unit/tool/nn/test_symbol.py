"""Symbols: what stands for a tensor while a network is traced."""

from diastole.nn.symbol import Symbol


def test_operations_of_symbols():
    recorded = []

    def record(operation, operands, attributes):
        recorded.append((operation, [each.name for each in operands], attributes))
        return Symbol(f"r{len(recorded)}", (2, 3), record)

    x, y = Symbol("x", (2, 3), record), Symbol("y", (2, 3), record)
    made = 2 * (x + y) * x * 3
    assert made.name == "r4"
    assert recorded == [
        ("add", ["x", "y"], {}),
        ("mul_scalar", ["r1"], {"other": 2.0}),
        ("mul", ["r2", "x"], {}),
        ("mul_scalar", ["r3"], {"other": 3.0}),
    ]
