"""Codes of debugging torch.compile and accelerators."""

from torchport.codes.explanation import Explanation

COMPILING: dict[str, Explanation] = {
    # Constraints and the mock backend: TP1001 to TP1009
    "TP1001": Explanation(
        "a graph breaks a constraint",
        "A backend in strict mode holds every graph of torch.compile against constraints, such as the operations and "
        "dtypes that hardware has, and stops at the first graph that breaks one. The message names the operation, its "
        "module and line, and the script that shows it without torchport.",
        "Change the line named, or go on with strict=False (of the mock backend also MOCK_STRICT=0), which only logs "
        "what breaks a constraint.",
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
