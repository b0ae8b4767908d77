"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    # Inductor and artifacts: TP1010 to TP1019
    "TP1010": Explanation(
        "A graph that Inductor was to compile breaks a constraint",
        "The backend is strict: a graph that breaks a constraint is not compiled. The message names the operation, its "
        "module and the line in the model, and the script that runs the graph by itself.",
        "Change the model at that line, or pass strict=False to be warned and go on.",
    ),
    "TP1011": Explanation(
        "The backend torchport_inductor has no such option",
        "Options are those of torchport_inductor (artifacts, constraints, strict, name, repro_inputs), or settings of "
        "Inductor as torch.compile's own backend takes them.",
        "Look the name up in docs/debug-inductor.md or with torch._inductor.list_options().",
    ),
    "TP1012": Explanation(
        "The backend torchport_inductor cannot do that with what it was given",
        "A value is of the wrong kind, or two things were given of which each says the same: a session has its own "
        "constraints and its own folder.",
        "Give one of the two, and values as docs/debug-inductor.md has them.",
    ),
    # Comparing kernels: TP1020 to TP1029
    # Guards: TP1030 to TP1039
    # The minifier: TP1040 to TP1049
    # Adapters and benchmarks: TP1050 to TP1059
    # Commands: TP1060 to TP1069
}
