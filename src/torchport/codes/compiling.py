"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    # Inductor and artifacts: TP1010 to TP1019
    # Comparing kernels: TP1020 to TP1029
    "TP1020": Explanation(
        "there is no such backend",
        "torch.compile knows no backend of that name, or what was given is neither a name, nor a function that takes a "
        "graph and inputs, nor an adapter.",
        "Give a name that `torch.compiler.list_backends` knows, or the backend itself.",
    ),
    "TP1021": Explanation(
        "the graphs of the model cannot be had",
        "Dynamo or AOTAutograd fails on the model before any backend is asked, so there is nothing to compare.",
        "Run `torch.compile(model, backend='aot_eager')` on the same inputs: it fails in the same way.",
    ),
    "TP1022": Explanation(
        "the backend takes too long",
        "A compilation or a run took longer than `timeout_s` allows. What was compared before is in the report.",
        "Give more time, or look at what the backend waits for.",
    ),
    "TP1023": Explanation(
        "no kernel ran",
        "Every operation was run by eager PyTorch itself, so that equal numbers say nothing about the backend.",
        "Compare a backend that compiles something, such as inductor, or an adapter with kernels of its own.",
    ),
    # Guards: TP1030 to TP1039
    # The minifier: TP1040 to TP1049
    # Adapters and benchmarks: TP1050 to TP1059
    # Commands: TP1060 to TP1069
}
