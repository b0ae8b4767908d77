"""The synapses of a group one by one: those of its own work, and those that were added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from torchport.capture.graph import Dtype
from torchport.errors import NeuronError
from torchport.targets.marble import sparse
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.fans import Fan, fan, request
from torchport.targets.marble.groups import ALONE, MADE, Form, Group
from torchport.targets.marble.sparse import own_part

MOST = 50_000_000
"""Synapses that are written one by one; more are refused."""


def alone_options(form: Form) -> dict[str, Any]:
    return {"shape": list(form.shape), "dtype": Dtype(form.dtype)}


def own_fan(version: Version, group: Group, neurons: range) -> Fan:
    """The synapses of the group's own work into some of its neurons."""
    sizes = {free.name: free.example for free in version.graph.free}
    own = own_part(group)
    forms = [version.form(port) for port in own.inputs]
    return fan(request(own, forms, own.results, version.cpu_arrays, sizes), neurons)


def own_width(version: Version, group: Group) -> int:
    """How many synapses a neuron of the group has by its own work; at a margin some are missing."""
    if group.work == ALONE or not group.results[0].size:
        return 0
    return own_fan(version, group, range(1)).source.shape[1]


def unrolled(version: Version, group: Group) -> tuple[Version, Group]:
    """The group with each synapse on its own, so that single ones can be changed. No weight is shared any more."""
    if group.work == ALONE:
        return version, group
    size, width = group.results[0].size, own_width(version, group)
    if size * width > MOST:
        raise NeuronError(
            "TP0907",
            f"to change single synapses of {group.name}, its {size * width:,} synapses would be written one by one; "
            f"at most {MOST:,} are",
            fix="Change the weights that its synapses share, or a smaller group.",
        )
    own = own_fan(version, group, range(size))
    present = torch.ones_like(own.source, dtype=torch.bool) if own.present is None else own.present
    target, number = present.nonzero(as_tuple=True)
    dtype = getattr(torch, group.results[0].dtype)
    weight = torch.ones(own.source.shape, dtype=dtype) if own.weight is None else own.weight.to(dtype)
    rows = sparse.Rows(target, own.source[present], weight[present], number)
    arrays = version.arrays_of(group)
    if sparse.ROW in arrays:
        rows = _joined(
            rows, sparse.Rows.of(arrays), sum(version.form(port).size for port in group.own_inputs)
        )
    made = rows.arrays(size)
    if sparse.NEXT in arrays:
        made[sparse.NEXT] = arrays[sparse.NEXT]
    if own.bias is not None:
        made["bias"] = own.bias.to(dtype).reshape(group.results[0].shape).clone()
    names = {purpose: f"{group.name}{MADE}{purpose}{version.number}" for purpose in made}
    sizes = tuple(version.form(port).size for port in group.own_inputs) + group.added
    changed = replace(group, work=ALONE, options=alone_options(group.results[0]), weights=names, added=sizes)
    version = version.with_group(changed, {names[purpose]: array for purpose, array in made.items()})
    return version, changed


def _joined(own: sparse.Rows, added: sparse.Rows, start: int) -> sparse.Rows:
    return sparse.Rows(
        torch.cat([own.target, added.target]),
        torch.cat([own.source, added.source + start]),
        torch.cat([own.weight, added.weight]),
        torch.cat([own.number, added.number]),
    )
