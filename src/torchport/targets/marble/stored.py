"""interim"""

from typing import Any
from torchport.targets.marble.groups import NeuronGraph


def graph_data(graph: NeuronGraph) -> Any:
    raise NotImplementedError


def graph_from(data: Any) -> NeuronGraph:
    raise NotImplementedError
