"""The synapses that arrive at neurons: for some neurons of a group, from where each message comes and with what weight.

In: a request, which has a group and the forms of what arrives at it, and some of its neurons. Out: a `Fan`. The sources
are places in the inputs of the group, laid end to end; whose neurons they are is known by the wiring.
"""

from __future__ import annotations

from torchport.targets.marble.fans.neurons import fan, reaches
from torchport.targets.marble.fans.request import Fan, Request, form_of, request

__all__ = ["Fan", "Request", "fan", "form_of", "reaches", "request"]
