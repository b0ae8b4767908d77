"""What scripts do with the graph that they hold, for each kind of failure. Nothing in them needs torchport."""

COMPILE = """
def compiled():
    return torch.compile(Repro(), backend=BACKEND)
"""

CALL_BACKEND = """
def compiled():
    return BACKEND(torch.fx.symbolic_trace(Repro()), inputs())
"""

RUNS = """
{compiled}

def main():
    torch.manual_seed(0)
    given = inputs()
    outputs = compiled()(*{given})
{backward}    print("no failure")


if __name__ == "__main__":
    main()
"""

BACKWARD = """    loss = sum(output.sum() for output in outputs if output.requires_grad)
    loss.backward()
"""

COMPARES = """
{compiled}

{wide}def results(function, given):
    torch.manual_seed(0)
{results}


def main():
    found = results(compiled(), inputs())
    expected = results({reference})
    if found.keys() != expected.keys():
        print(f"{{KIND}}: {{', '.join(sorted(found.keys() ^ expected.keys()))}}")
        sys.exit(1)
    for name, value in expected.items():
        try:
            torch.testing.assert_close({value}, value, {tolerance}, equal_nan=True)
        except AssertionError as error:
            print(error)
            print(f"{{KIND}}: {{name}}")
            sys.exit(1)
    print("no failure")


if __name__ == "__main__":
    main()
"""

WIDE = """def wide(value):
    \"\"\"An input in float64.\"\"\"
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


"""

OUTPUTS = """{copies}    outputs = list(function(*given))
    named = {{f"output {{index}}": value for index, value in enumerate(outputs)}}
    named |= {{f"input {{index}}": value for index, value in enumerate(given)}}  # They may have been written to.
    return {{name: value.detach() for name, value in named.items() if isinstance(value, torch.Tensor)}}"""

GRADIENTS = """    outputs = function(*{given})
    # Weights that are not all alike: with ones, the gradient of a softmax is zero whatever it computes.
    weights = [torch.linspace(0.5, 1.5, output.numel()).reshape(output.shape).to(output) for output in outputs]
    terms = [(output * weight).sum() for output, weight in zip(outputs, weights) if output.requires_grad]
    wanted = [value for value in given if isinstance(value, torch.Tensor) and value.requires_grad]
    gradients = torch.autograd.grad(sum(terms), wanted, allow_unused=True)
    return {{f"gradient {{index}}": value for index, value in enumerate(gradients) if value is not None}}"""

CONSTRAINT = '''
def violates(op, tensor):
    """{rule}"""
    return {condition}


def op_of(node):
    if node.op == "call_method":
        return f"torch.Tensor.{{node.target}}"
    if node.op != "call_function":
        return node.op
    if isinstance(node.target, type(torch.ops.aten.add.Tensor)):
        return str(node.target)
    home = getattr(node.target, "__module__", "")
    name = f"{{home}}.{{getattr(node.target, '__qualname__', node.target)}}".lstrip("_.")
    return torch.overrides.resolve_name(node.target) or name


class Watching(torch.fx.Interpreter):
    def run_node(self, node):
        value = super().run_node(node)
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(tensor, torch.Tensor) and violates(op_of(node), tensor):
                facts = f"{{tuple(tensor.shape)}}, strides {{tensor.stride()}}, {{tensor.dtype}}"
                print(f"{{KIND}}: {{op_of(node)}} gives {{facts}}")
                sys.exit(1)
        return value


def main():
    Watching(torch.fx.symbolic_trace(Repro())).run(*inputs())
    print("no failure")


if __name__ == "__main__":
    main()
'''

ASKS = """
def main():
    failure = {fails}(torch.fx.symbolic_trace(Repro()), inputs())
    if failure is None:
        print("no failure")
        return
    print(f"{{failure.kind}}: {{failure.message}}")
    sys.exit(1)


if __name__ == "__main__":
    main()
"""
