"""Codes of graphs of neurons."""

from torchport.codes.explanation import Explanation

NEURONS: dict[str, Explanation] = {
    "TP0901": Explanation(
        "there is no such neuron, synapse or group",
        "Ids of neurons are given once and never again, also after a neuron was removed.",
        "List what there is with `core.groups()` or `torchport marble convert --summary`.",
    ),
    "TP0902": Explanation(
        "others need what would be removed",
        "A synapse would come from a neuron that is not there, or the graph would lose an output.",
        "Remove the synapses named first, or remove with cascade=True.",
    ),
    "TP0903": Explanation(
        "the synapses would form a cycle",
        "A neuron would wait for its own value. Only a memory, which gives the value of the run before, closes a loop.",
        "Send the value through `core.add_memory`, and add the synapse from there.",
    ),
    "TP0904": Explanation(
        "the graph cannot be changed like this",
        "The change does not fit what is there, so nothing was changed.",
        "See the message for what would fit.",
    ),
    "TP0905": Explanation(
        "the graph cannot be run with these inputs",
        "A graph has the inputs of the model that it was made from.",
        "Give as many tensors as the model takes, of the shapes that it was converted for.",
    ),
    "TP0907": Explanation(
        "there are too many synapses to write them one by one",
        "Weights that many synapses share are stored once. What was asked for needs each synapse on its own.",
        "Ask for less, or raise the limit that the message names.",
    ),
    "TP0830": Explanation(
        "two activations have the same name",
        "Each activation has a name of its own, by which groups of neurons call it.",
        "Choose another name, or remove the other one first with remove_activation.",
    ),
    "TP0831": Explanation(
        "the name of an activation is malformed",
        "A name is made of letters, digits and underscores, and begins with no digit.",
        "Choose a name such as `snake`.",
    ),
    "TP0832": Explanation(
        "the activation is not known",
        "A group of neurons calls an activation that is neither in the default plugin nor registered.",
        "Import the module that registers it with @activation, or correct the name.",
    ),
    "TP0833": Explanation(
        "an activation changes the form of values",
        "A function of one value gives one value for each, so shape and dtype must stay as they are.",
        "Let the function give a tensor of the shape and dtype that it is given.",
    ),
}
