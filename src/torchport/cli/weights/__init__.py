"""`torchport weights`: checkpoints on the command line."""

from torchport.cli.groups import group
from torchport.cli.weights.extract import extract
from torchport.cli.weights.inspect import inspect
from torchport.cli.weights.map import map_names

app = group("The weights of a port, out of a checkpoint of any size.")
app.command()(inspect)
app.command("map")(map_names)
app.command()(extract)
