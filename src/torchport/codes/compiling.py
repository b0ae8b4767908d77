"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    "TP1001": Explanation(
        "a graph breaks a constraint",
        "A mock backend in strict mode holds every graph of torch.compile against constraints, such as the operations "
        "and dtypes that hardware has, and stops at the first graph that breaks one.",
        "Change the line named, or go on with strict=False or MOCK_STRICT=0, which only logs what breaks a constraint.",
    ),
    "TP1002": Explanation(
        "a setting of the mock backend is wrong",
        "MOCK_STRICT is 1 or 0, MOCK_ALIGNMENT a whole number of at least 1, MOCK_MAX_MEMORY an amount of memory such "
        "as 16GiB. The options of the same names are held to the same.",
        "Correct the variable or option named, or leave it out for the default.",
    ),
    "TP1003": Explanation(
        "the backend does not have this option",
        "An option that is not known is refused, so that a typing error is not taken for a setting.",
        "Use one of the options that the message lists.",
    ),
    "TP1004": Explanation(
        "the denied operation is not known",
        "A name that matches nothing would never be found, and so deny nothing.",
        "Write it as graphs do: aten.convolution.default, aten.convolution, torch.nn.functional.conv2d; give patterns "
        "such as aten.*pool* as patterns. Import the library of a custom operation first.",
    ),
    "TP1005": Explanation(
        "the dtype is not known",
        "A dtype is one of torch's, or its name.",
        'Write it as "float32", "torch.float32" or torch.float32.',
    ),
    "TP1006": Explanation(
        "a constraint failed itself",
        "A constraint's own code raised, or gave something that is no violation, so it says nothing about the graph.",
        "Mend the constraint: check(graph) yields what self.violated_by(node, message) gives.",
    ),
    "TP1007": Explanation(
        "the ATen graph of a graph cannot be made",
        "AOTAutograd, which breaks a graph down to ATen operations, failed on it, so the ATen graph was not checked.",
        'Compile the model with backend="aot_eager" to see the failure without torchport.',
    ),
    "TP1008": Explanation(
        "an argument of a constraint or backend is wrong",
        "What was given is of another kind than what the constraint or backend takes.",
        "See the message for what it takes.",
    ),
    # Inductor and artifacts: TP1010 to TP1019
    # Comparing kernels: TP1020 to TP1029
    # Guards: TP1030 to TP1039
    # The minifier: TP1040 to TP1049
    # Adapters and benchmarks: TP1050 to TP1059
    # Commands: TP1060 to TP1069
}
