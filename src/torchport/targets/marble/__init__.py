"""The marble target: a captured model as a graph of neurons and synapses that runs, grows and is proven."""
