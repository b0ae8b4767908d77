"""Codes of captures, ports, runs and commands."""

from torchport.codes.explanation import Explanation

PORTS: dict[str, Explanation] = {
    "TP0001": Explanation(
        "internal error",
        "Something failed in a way torchport does not know, so this is a fault in torchport.",
        "Run the command again with --debug and report the traceback.",
    ),
    # Spec
    "TP0101": Explanation(
        "the SPEC is malformed",
        "A SPEC names a model as `path/to/file.py:callable` or `package.module:callable`.",
        "Write the file or module, a colon, and the name of a function, such as model.py:build.",
    ),
    "TP0102": Explanation(
        "the SPEC's file or module is not there",
        "The part before the colon is neither a file that exists nor a module that imports.",
        "Check the path from the current directory, or install the package that has the module.",
    ),
    "TP0103": Explanation(
        "the SPEC's callable is not there",
        "The file or module was loaded, but it has nothing callable of that name.",
        "Check the name after the colon; it must be defined at the top level of the file.",
    ),
    "TP0104": Explanation(
        "the SPEC's file or callable raised",
        "The user's own code failed, before torchport had a model to work on.",
        "Call the function from a Python prompt and mend what it reports.",
    ),
    "TP0105": Explanation(
        "the SPEC's callable did not return a model and its inputs",
        "It takes no arguments and returns (model, args) or (model, args, kwargs): a "
        "torch.nn.Module, a tuple of positional inputs and a dict of named ones.",
        "Return (model, (input,)) from the function; mind the comma after a single input.",
    ),
    "TP0106": Explanation(
        "the free axes asked for are wrong",
        "`dynamic` lists the axes that may change: NAME:AXIS,… where NAME is an input of the model's "
        "forward and AXIS the number of a dimension of it.",
        "Write for example input_ids:0,input_ids:1 ([[dynamic]]), with the names that forward has.",
    ),
    "TP0107": Explanation(
        "the hints file is wrong",
        "A hints file is JSON; it names dimensions whose size alone is ambiguous, and dynamic axes.",
        "Check that the file exists and is valid JSON with the fields the documentation lists.",
    ),
    "TP0108": Explanation(
        "the configuration is wrong",
        "A configuration is YAML with settings that are known, each of its own type.",
        "Mend the setting named; docs/marble.md lists all of them.",
    ),
    "TP0109": Explanation(
        "a hint fits nothing",
        "A hint names a size by its value or by the weight axes that it is. No number of the generated code has that "
        "value without another reason for its name, and no weight has that axis.",
        "See `torchport codegen --analyze-only`, which lists each name with its reason; mend the value or the place, "
        "or remove the hint.",
    ),
    # Capture
    "TP0201": Explanation(
        "the model fails its own forward",
        "Plain PyTorch raised on the example inputs, so there is nothing to record.",
        "Make model(*args, **kwargs) work in Python first.",
    ),
    "TP0202": Explanation(
        "torch.export failed",
        "The graph could not be had: the forward does something that export cannot follow, such "
        "as a branch on a tensor's value. Manifest and trace are recorded by hooks instead, and "
        "what the graph would have told is left as TODOs.",
        "Change the line named, or wrap the part that varies in torch.cond.",
    ),
    "TP0203": Explanation(
        "the captured graph does not reproduce the eager outputs",
        "Running the exported graph gives other numbers than the model does, so a port of it "
        "would be a port of something else.",
        "Look for state that forward changes, or values read from outside the model.",
    ),
    "TP0204": Explanation(
        "the model does not give the same result twice",
        "Two eager runs on the same inputs differ: dropout in training mode, or random numbers.",
        "Call model.eval(), and pass random tensors in as inputs; or port the model with [[allow_random=True]], which "
        "leaves what depends on random numbers out of the verdict.",
    ),
    "TP0205": Explanation(
        "an input or output is of a kind that cannot be recorded",
        "Inputs and outputs are nested tuples, lists, dicts and dataclasses of tensors, numbers, "
        "strings, bools and None.",
        "Register the class with torch.utils._pytree or torch.export.register_dataclass, or wrap "
        "the model in one that takes and returns tensors.",
    ),
    "TP0206": Explanation(
        "a script failed, or recorded nothing",
        "A script is run as Python itself would run it. One that is given to `record --script` must also make a "
        "GoldenRecorder and call its record method.",
        "Run the script with python to see its own error; check that it reaches record(), if it is to record.",
    ),
    "TP0207": Explanation(
        "this torch is too old or too new",
        "torchport is tested with the torch versions its package metadata allows.",
        "Install a supported torch; `torchport doctor` says which.",
    ),
    "TP0208": Explanation(
        "the inputs do not fit the port",
        "A port takes the inputs that it was recorded with, and others that differ from them only in "
        "the length of free axes.",
        "Give inputs of the shapes and dtypes named, or port the model with that axis free.",
    ),
    "TP0209": Explanation(
        "a module has a name that is kept for something else",
        "Later calls of a module are called `norm#1` and, in a graph, `norm@1`; the inputs and outputs of a call are "
        "`norm<0` and `norm:1`. A module with such a name could not be told from them.",
        "Give the module another name, such as another key in the nn.ModuleDict that holds it.",
    ),
    # Files
    "TP0301": Explanation(
        "the manifest is not there",
        "Everything after capture works from NAME_manifest.json and the files beside it.",
        "Check the path, or record the model again with `torchport record`.",
    ),
    "TP0302": Explanation(
        "the manifest is not JSON",
        "The file could be read, but it is something else than a manifest.",
        "Give the NAME_manifest.json that `torchport record` wrote.",
    ),
    "TP0303": Explanation(
        "the manifest is truncated",
        "The JSON stops before its end: a copy or a download was cut short.",
        "Copy the file again and compare the sizes, or record the model again.",
    ),
    "TP0304": Explanation(
        "the manifest is of a newer version",
        "A later torchport wrote it, with a schema that this one does not know.",
        "Upgrade torchport, or record the model with this version.",
    ),
    "TP0305": Explanation(
        "the manifest has an invalid field",
        "It is JSON, but a field is missing or has a value that cannot be right.",
        "Record the model again; if the file was edited by hand, mend the field named.",
    ),
    "TP0310": Explanation(
        "the trace is not there or is truncated",
        "A trace is the safetensors file with the values of every layer.",
        "Check the path, copy the file again, or record the model again.",
    ),
    "TP0311": Explanation(
        "the trace misses a layer",
        "The manifest lists a layer whose values are not in the trace: the two files are not from "
        "the same recording.",
        "Use the manifest and the trace of one recording, or record the model again.",
    ),
    "TP0312": Explanation(
        "the trace is of other shapes than the manifest",
        "A value in the trace has another shape than the manifest says, so that the two are not of one recording.",
        "Record the model again, which writes both.",
    ),
    "TP0320": Explanation(
        "the weights file misses a tensor",
        "The port needs a tensor that the weights file does not have under that name.",
        "Use the weights of the same recording, or map the checkpoint's names to the port's.",
    ),
    "TP0321": Explanation(
        "a tensor in the weights file has the wrong shape or dtype",
        "The name is right, but the tensor is not what the port was generated for.",
        "Use the weights of the same recording, or record the model with this configuration.",
    ),
    "TP0322": Explanation(
        "a file of tensors cannot be read",
        "It is not there, is cut off or empty, needs code to be loaded, or is something else.",
        "Check the path and the size of the file; give safetensors, a PyTorch state_dict, a capture or a run.",
    ),
    "TP0323": Explanation(
        "the rules for a checkpoint are wrong",
        "A rule is not written as it should be, matches no name, or gives two tensors one name. Rules are checked "
        "before anything is read.",
        "See docs/weights.md for what a rules file holds; --dry-run shows what the rules give.",
    ),
    "TP0324": Explanation(
        "a checkpoint can be read in several ways",
        "It has the weights under several prefixes, such as those of a model and of its moving average.",
        "Say which with --prefix.",
    ),
    "TP0325": Explanation(
        "what was written is not what is there",
        "A file was read back after it was written, and has other values: the disk or the memory is at fault.",
        "Run the command again, on another disk if it happens again.",
    ),
    "TP0326": Explanation(
        "weights that are tied in the port differ in the checkpoint",
        "The model has one tensor under two names, and the checkpoint has two that are not the same.",
        "Record the model as the checkpoint has it, without tied weights; or drop the tensor that is not meant.",
    ),
    "TP0327": Explanation(
        "the model has other weights than the port",
        "A port is checked with the model that it was made from. With other weights every layer would differ, which "
        "says nothing about the port.",
        "Give the model the weights of the port (seed it, or load the same checkpoint), or port it anew.",
    ),
    "TP0330": Explanation(
        "a file could not be written",
        "The disk is full, or the directory does not allow it. Nothing half-written was left.",
        "Free some space or choose another directory ([[out]]).",
    ),
    "TP0331": Explanation(
        "the port was edited by hand",
        "Writing the port anew would lose the edits: its source is no longer what was generated.",
        "Port to another directory ([[out]]), or give [[force=True]] if the edits may go.",
    ),
    # Reports
    "TP0340": Explanation(
        "there is no report",
        "The directory holds no report.json: the run was interrupted before there was a verdict, or it is "
        "not a run.",
        "Run `torchport port` or `torchport check` again to its end, and give the directory that it names.",
    ),
    "TP0341": Explanation(
        "the report cannot be read",
        "The file is cut off, is not JSON, or is not a report that this version of torchport knows.",
        "Run `torchport check` on the port again, which writes a new report.",
    ),
    "TP0342": Explanation(
        "there is nothing to compare",
        "The two sides have no name in common, or one of them is empty, so no verdict can be reached.",
        "Check that both are of the same model; --map OLD=NEW renames what is called otherwise.",
    ),
    "TP0343": Explanation(
        "the run lacks what is asked for",
        "A report was found, but not the layer, trace or project beside it that this needs.",
        "Name a layer that the report lists, and keep the directory of a run together.",
    ),
    "TP0344": Explanation(
        "the failure cannot be reduced",
        "The layer fails within the model, but its operations agree with PyTorch when they run alone: the source "
        "of the port was edited in a way that cannot be carried over, or the failure comes and goes.",
        "Look at the edits that the report lists, and at the snippet of the layer.",
    ),
    "TP0345": Explanation(
        "the folder of the run cannot be read",
        "Its run.json, which says what the run is of and where its files are, is cut off or not of this version.",
        "Run `torchport port` again, or upgrade torchport if a later version wrote the folder.",
    ),
    "TP0346": Explanation(
        "another command is at work in the folder",
        "A port, check or minify is changing the folder of the run, which until then is neither the old run nor the "
        "new one.",
        "Wait until the other command has ended, or give another directory ([[out]]).",
    ),
    # Quantised weights
    "TP0350": Explanation(
        "a weight cannot be quantised",
        "A format keeps weights in blocks of a row, with scales in half precision: rows must be whole blocks, and all "
        "weights must be finite and below what a scale can hold.",
        "Leave the weight as it is, or take a format with smaller blocks; the message says which weight, and why.",
    ),
    "TP0351": Explanation(
        "the GGUF file cannot be read",
        "It is not there, is cut off, or its header says something that cannot be.",
        "Download or write the file again; GGUF of versions 2 and 3 is read.",
    ),
    "TP0352": Explanation(
        "a tensor cannot be in a GGUF file",
        "candle reads GGUF tensors of up to four axes, as floats of up to 32 bits or in blocks. What would be stored "
        "as something else than it is, is refused.",
        "Leave the tensor out of the model's state, or give it another dtype or shape; the message names it.",
    ),
    "TP0353": Explanation(
        "how much the weights matter is not known",
        "An importance has a number for each column of a matrix, finite and not negative.",
        "Give one number for each input of the layer.",
    ),
    "TP0354": Explanation(
        "packed weights cannot be read",
        "Checkpoints of AWQ and GPTQ keep a matrix as qweight, qzeros and scales, whose shapes follow from each other.",
        "See that the checkpoint is whole, and of 4 or 8 bits; the message names the layer.",
    ),
    # Files of neuron graphs
    "TP0360": Explanation(
        "the file of a neuron graph cannot be opened",
        "It is not there, is a folder, or may not be read.",
        "Check the path and the permissions of the file.",
    ),
    "TP0361": Explanation(
        "the file of a neuron graph is cut off or of another kind",
        "A native file is one of safetensors; a graph in JSON is UTF-8 text with one object; a legacy snapshot is a "
        "pickle of protocol 2 or later.",
        "Copy the file again and compare the sizes, or write the graph again; check that the suffix fits.",
    ),
    "TP0362": Explanation(
        "a neuron graph has a value that cannot be right",
        "Ids are the places in the list, synapses join neurons that exist, and every field is of its type. What a "
        "graph of plain neurons cannot hold is refused, too, since it would be lost.",
        "Mend the place named, or write the graph again.",
    ),
    "TP0363": Explanation(
        "the file of a neuron graph is of a newer version",
        "A later torchport or MARBLE wrote it, in a form that this version does not know.",
        "Upgrade torchport, or write the graph with this version.",
    ),
    "TP0364": Explanation(
        "the file of a neuron graph has been changed",
        "The checksum in the file is not that of the graph in it, or there is none to be compared.",
        "Copy the file again, or write it again; verify=False reads it as it is.",
    ),
    "TP0365": Explanation(
        "the pickle asks for something that no neuron graph needs",
        "Pickles can run any code. A legacy snapshot is read by names alone: nothing is imported or called, and a "
        "name that no snapshot needs is refused.",
        "Do not open the file with MARBLE or pickle unless you trust who made it.",
    ),
    "TP0366": Explanation(
        "the file of a neuron graph asks for too much",
        "Its size, its nesting or the memory that it would take is beyond the limits for reading.",
        "If the file is to be trusted, read it with wider limits.",
    ),
    "TP0367": Explanation(
        "the neuron graph does not fit this format",
        "MARBLE keeps an object for every synapse, so its formats are only for small graphs, and it has no biases "
        "but bias neurons.",
        "Keep the graph in the native format; export a part of it, or force the export.",
    ),
    "TP0368": Explanation(
        "the graph in the file cannot be run",
        "A graph of neurons and synapses says how each neuron adds what arrives, and which activation follows. What "
        "needs more than that, such as a product, a selection, a memory or a cycle, is only in native files.",
        "Save the graph as a native `.marble` file where it was made, and load that.",
    ),
    "TP0369": Explanation(
        "there is no such format of neuron graphs",
        "The extension of a file says how a graph is written. Only native files have a journal.",
        "Use .marble or .json.",
    ),
    # Convert
    "TP0401": Explanation(
        "unsupported operations remain",
        "Some operations of the model have no translation for this target; each is a TODO in the "
        "generated code that says so when it is reached.",
        "See the list of TODOs; write the operation by hand, or add it to the operation table.",
    ),
    "TP0402": Explanation(
        "the target is unknown",
        "A target is somewhere a model can be ported to, such as candle.",
        "Choose one of the targets that `torchport doctor` lists.",
    ),
    "TP0403": Explanation(
        "the generated code is invalid",
        "torchport wrote code that does not parse, which is a fault in torchport.",
        "Report it with the manifest, which has no weights in it.",
    ),
    "TP0404": Explanation(
        "the model cannot be captured for its neurons",
        "Neither torch.export nor torch.fx could follow the model, and its layers are no plain chain; or there are no "
        "example inputs, from which alone shapes are known.",
        "Give example inputs, or rewrite the line of the model that the message names.",
    ),
    "TP0407": Explanation(
        "the file is none that torchport generated",
        "Markers of what is left to do are looked for in generated source, such as rust/src/model.rs in the "
        "directory of a port; this file is something else, or is not there.",
        "Give the source file that `torchport port` or `torchport codegen --out` wrote.",
    ),
    "TP0420": Explanation(
        "the synapses of an operation are not known",
        "A neuron graph has an operation whose groups compute, but nothing says from where each neuron receives.",
        "Add a row for the operation to PATTERNS in torchport/targets/marble/fans/neurons.py.",
    ),
    "TP0405": Explanation(
        "the positional encoding does not fit the model",
        "An encoding of places is added to what an nn.Embedding gives. The model has none or several, or more tokens "
        "than the encoding has places.",
        "Name the embedding in positional_encoding.layer, and see the message for what is there.",
    ),
    # Build
    "TP0501": Explanation(
        "cargo is not installed",
        "Ports to candle are Rust, and cargo builds them.",
        "Install Rust from https://rustup.rs and open a new terminal; see `torchport doctor`.",
    ),
    "TP0502": Explanation(
        "cargo could not build the port",
        "The compiler refused the generated code, or a dependency could not be had.",
        "Run `cargo build` in the port's directory to see the whole message.",
    ),
    "TP0503": Explanation(
        "rustfmt is not installed",
        "Generated Rust is formatted with rustfmt.",
        "Run `rustup component add rustfmt`.",
    ),
    # Run
    "TP0601": Explanation(
        "the port crashed",
        "The generated program was built and started, and ended with an error.",
        "Run the program in the port's directory with RUST_BACKTRACE=1 to see where.",
    ),
    "TP0602": Explanation(
        "the port wrote no trace",
        "The program ended well but left nothing to compare.",
        'Port the model again with [[checks="layers"]].',
    ),
    "TP0603": Explanation(
        "the candidate fails on the inputs",
        "The module or function that is compared with the reference raised an error.",
        "Call it on the same inputs in Python and mend what it reports.",
    ),
    # Parity
    "TP0701": Explanation(
        "the port diverges",
        "At least one layer computes something else than the original; the first such layer, in "
        "the order of execution and by its own error, is the culprit.",
        "Start at the culprit the report names; layers after it may only have inherited its error.",
    ),
    "TP0702": Explanation(
        "nothing was compared",
        "No value of the port could be set against one of the original, so nothing is proven.",
        'Port the model again with [[checks="layers"]], and check that the trace is of this model.',
    ),
    "TP0703": Explanation(
        "every output depends on random numbers",
        "The port draws other numbers than the model drew, so its outputs are other ones whether it is right or not. "
        "The errors that layers make by themselves were judged; what they add up to cannot be.",
        "Pass random tensors in as inputs, or have the model return something that depends on none.",
    ),
    # Usage
    "TP0801": Explanation(
        "the command was used wrongly",
        "The options given do not go together, or one of them has a value that cannot be used.",
        "See the command's --help.",
    ),
    "TP0802": Explanation(
        "there is no such code",
        "Codes look like TP0203.",
        "Run `torchport explain` with no code to list them all.",
    ),
    "TP0803": Explanation(
        "an optional package is missing",
        "Some features need a package that torchport does not install by itself.",
        "Install the package named.",
    ),
    "TP0804": Explanation(
        "an edited port without checks cannot be proven",
        'A port that was made with [[checks="none"]] is proven by a twin that has checks and is otherwise the same. '
        "Once the source is edited, the twin is another program.",
        'Port the model with [[checks="layers"]] and make the edit there; or undo it.',
    ),
}
