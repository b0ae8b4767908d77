"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    # Inductor and artifacts: TP1010 to TP1019
    # Comparing kernels: TP1020 to TP1029
    # Guards: TP1030 to TP1039
    # The minifier: TP1040 to TP1049
    # Adapters and benchmarks: TP1050 to TP1059
    "TP1050": Explanation(
        "an accelerator cannot be like that",
        "What was given as a capability or an option of an accelerator has no meaning: a dtype that torch does not "
        "have, an alignment below 1, a name that is no word.",
        "Give a value of the kind that the message names.",
    ),
    "TP1051": Explanation(
        "an adapter lacks something",
        "An adapter has capabilities and a way to run a graph: compile(gm, example_inputs), or run_node(op, args, "
        "kwargs).",
        "See docs/accelerators.md, and add what is missing.",
    ),
    "TP1052": Explanation(
        "the name of an adapter is taken",
        "Adapters are found by name, so two of them cannot have the same one.",
        "Rename one of the two, or remove the package that brings it.",
    ),
    "TP1053": Explanation(
        "an adapter gave something else than the graph gives",
        "What the compiled graph returned differs from the graph's outputs in count, shape, dtype or device.",
        "Mend the adapter: it must return a sequence with one value for each output of the graph.",
    ),
    "TP1054": Explanation(
        "arithmetic cannot be emulated there",
        "The arithmetic of accelerators is emulated with operations of the CPU.",
        "Move the model and its inputs to the CPU.",
    ),
    "TP1055": Explanation(
        "an adapter cannot be found or loaded",
        "Adapters are found by the names of entry points in the group torchport.accelerators.",
        "Check the name, or mend the package that brings the adapter.",
    ),
    "TP1056": Explanation(
        "there is no such benchmark",
        "A benchmark is one of the models that torchport brings, or a SPEC such as file.py:callable.",
        "Run `torchport bench --list` to see all models and backends.",
    ),
    # Commands: TP1060 to TP1069
}
