"""The models that the tests of `torchport marble` write to a file, as SPECs."""

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        return self.last(self.first(x).relu())

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, ids, scale):
        return self.head(self.tokens(ids)) * scale

class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4)

    def forward(self, x):
        return self.rnn(x)[0]

class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x):
        y = self.first(x) + self.last
        self.last.copy_(y[0])
        return y

class Odd(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x)

def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 8),)

def other():
    torch.manual_seed(1)
    return Net().eval(), (torch.randn(2, 8),)

def reader():
    torch.manual_seed(0)
    return Reader().eval(), (), {"ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "scale": torch.tensor(2.0)}

def counter():
    torch.manual_seed(0)
    return Counter().eval(), (torch.randn(5, 1, 3),)

def writer():
    torch.manual_seed(0)
    return Writer().eval(), (torch.randn(2, 8),)

def odd():
    return Odd().eval(), (torch.eye(3),)

def without_inputs():
    return Net().eval(), ()
"""
