"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    # Inductor and artifacts: TP1010 to TP1019
    # Comparing kernels: TP1020 to TP1029
    # Guards: TP1030 to TP1039
    "TP1030": Explanation(
        "Not something that can be called",
        "The guard inspector was given something that is neither a function nor a module.",
        "Give the function or module itself, not what it returns.",
    ),
    "TP1031": Explanation(
        "Wrong arguments",
        "The function cannot be called with these arguments, with torch.compile or without.",
        "Compare the arguments with the function's signature.",
    ),
    "TP1032": Explanation(
        "Not a list of calls",
        "The calls to inspect are a list. Each is a tuple of arguments, a dict of named arguments, or a Call of both.",
        "Write inspect_calls(f, [(x,), (y,)]) for f(x) and f(y); the comma makes the tuple.",
    ),
    "TP1033": Explanation(
        "This torch cannot be observed",
        "The guard inspector looks into private parts of torch, and the most needed one is not where it was.",
        "Use a version of torch that torchport supports; torchport doctor lists what is missing.",
    ),
    "TP1034": Explanation(
        "Unknown backend",
        "torch.compile has no backend of that name.",
        "Give a name from torch.compiler.list_backends(None), or a function that takes a graph and its inputs.",
    ),
    # The minifier: TP1040 to TP1049
    # Adapters and benchmarks: TP1050 to TP1059
    # Commands: TP1060 to TP1069
}
