"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    # Inductor and artifacts: TP1010 to TP1019
    # Comparing kernels: TP1020 to TP1029
    # Guards: TP1030 to TP1039
    # The minifier: TP1040 to TP1049
    "TP1040": Explanation(
        "the inputs do not fit the graph",
        "A graph is minified with the inputs that it was compiled for, one for each placeholder.",
        "Give the inputs that the backend was given together with the graph.",
    ),
    "TP1041": Explanation(
        "nothing says how to see whether a graph fails",
        "The minifier runs ever smaller graphs, and must know with which backend, against which constraints, or which "
        "function tells whether one fails.",
        "Give backend=, constraints= or a function fails(gm, inputs) as the error.",
    ),
    "TP1042": Explanation(
        "eager PyTorch cannot run the graph",
        "The minifier cuts a graph at values that eager PyTorch computes. This graph fails there already, so that no "
        "backend is at fault.",
        "Run the graph with `gm(*inputs)` and mend what it reports.",
    ),
    "TP1043": Explanation(
        "the function that tells whether a graph fails has failed itself",
        "fails(gm, inputs) gives a Failure, or None if the graph does not fail. It raised an exception on the whole "
        "graph, or gave something else.",
        "Call it on the graph from a Python prompt and mend what it reports.",
    ),
    "TP1044": Explanation(
        "a part of the graph cannot be written into a script",
        "Scripts hold graphs as Python text: operations, tensors, and layers of torch.nn.",
        "Give the graph of ATen operations, in which there are only tensors.",
    ),
    "TP1045": Explanation(
        "the backend cannot be written into a script",
        "A script runs in a process of its own and must be able to import the backend, or know its name.",
        "Put the backend at the top level of a module that can be imported, or register it under a name.",
    ),
    "TP1046": Explanation(
        "the graph does not fail",
        "The whole graph was run several times, as it will be run by a script, and nothing was wrong.",
        "Check that the inputs, the backend and its settings are those of the failure.",
    ),
    "TP1047": Explanation(
        "the graph fails in another way",
        "The failure that was given and the one that is seen when the graph runs are not of one kind.",
        "Give the failure that is seen, or the inputs and settings of the one that was meant.",
    ),
    "TP1048": Explanation(
        "there is no script to minify",
        "A debugging run keeps the graphs that fail as scripts in its folder `repros`.",
        "Name a run with a failure, or a script that torchport has written.",
    ),
    "TP1049": Explanation(
        "the graph does not end within the time of a try",
        "A try that takes too long is ended. It is taken for the failure only if a hang is what is looked for.",
        'Give a larger limit=, or Failure("hang", "", "") as the error if the hang is to be minified.',
    ),
    # Adapters and benchmarks: TP1050 to TP1059
    # Commands: TP1060 to TP1069
}
