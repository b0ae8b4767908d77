"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    # Inductor and artifacts: TP1010 to TP1019
    # Comparing kernels: TP1020 to TP1029
    # Guards: TP1030 to TP1039
    # The minifier: TP1040 to TP1049
    # Adapters and benchmarks: TP1050 to TP1059
    # Commands: TP1060 to TP1069
}
