"""`torchport marble`: graphs of neurons on the command line."""

from torchport.cli.groups import group
from torchport.cli.marble.change import grow, prune
from torchport.cli.marble.convert import convert
from torchport.cli.marble.layers import layers
from torchport.cli.marble.run import run
from torchport.cli.marble.validate import validate
from torchport.cli.marble.view import view

app = group("Models as graphs of neurons and synapses that run, can be looked at, and can be changed.")
for command in (convert, run, validate, layers, view, prune, grow):
    app.command()(command)
