"""`torchport debug`: torch.compile and accelerators on the command line."""

from torchport.cli.debug.analyze import analyze
from torchport.cli.debug.clean import clean
from torchport.cli.debug.list import list_runs
from torchport.cli.debug.report import report
from torchport.cli.debug.run import run
from torchport.cli.groups import group
from torchport.cli.minify import minify

app = group(
    "What torch.compile makes of a model: graphs, breaks, guards, constraints, and the kernel that is wrong."
)
app.command()(run)
app.command("list")(list_runs)
for command in (analyze, report, minify, clean):
    app.command()(command)
