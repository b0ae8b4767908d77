"""The models that torchport brings are what they are said to be, and can be compiled whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchport.bench.models import MODELS, BenchModel, built, find_model
from torchport.bench.ssm import SelectiveSsm, SsmConfig, scan
from torchport.errors import UsageError


def one_after_the_other(kept: Tensor, added: Tensor) -> Tensor:
    state, found = torch.zeros_like(added[:, 0]), []
    for step in range(kept.shape[1]):
        state = kept[:, step] * state + added[:, step]
        found.append(state)
    return torch.stack(found, 1)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
def test_the_scan_is_the_recurrence(length: int) -> None:
    kept, added = torch.rand(2, length, 3, 4, dtype=torch.float64), torch.randn(2, length, 3, 4).double()
    torch.testing.assert_close(scan(kept, added), one_after_the_other(kept, added))


def test_no_token_sees_a_later_one() -> None:
    model, (tokens,), _ = built(MODELS["ssm"], small=True, device="cpu")
    changed = tokens.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % 100
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :9], after[:, :9])
    assert not torch.allclose(before[:, 9:], after[:, 9:])


def test_the_state_space_model_has_27_million_parameters() -> None:
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in SelectiveSsm(SsmConfig()).parameters())
    assert round(count / 1e6) == 27


@pytest.mark.slow
def test_bert_has_the_size_of_the_multilingual_one() -> None:
    with torch.device("meta"):
        subject = MODELS["bert"].build(False)
    assert round(sum(parameter.numel() for parameter in subject.model.parameters()) / 1e6) == 178


@pytest.mark.parametrize("name", MODELS)
def test_a_small_model_is_one_graph_that_can_be_exported(name: str) -> None:
    model, args, kwargs = built(MODELS[name], small=True, device="cpu")
    with torch.no_grad():
        golden = model(*args, **kwargs)
        exported = torch.export.export(model, args, kwargs).module()(*args, **kwargs)
        whole = torch.compile(model, backend="eager", fullgraph=True)(*args, **kwargs)
    assert torch.equal(*(getattr(one, "last_hidden_state", one) for one in (golden, whole)))
    torch.testing.assert_close(*(getattr(one, "last_hidden_state", one) for one in (golden, exported)))


@pytest.mark.slow
def test_inductor_computes_the_state_space_model() -> None:
    model = SelectiveSsm(SsmConfig(vocabulary=20, width=8, layers=1, states=2)).eval()
    tokens = torch.randint(0, 20, (1, 5))
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model)(tokens), model(tokens))


def test_weights_are_the_same_every_time() -> None:
    first, second = (built(MODELS["ssm"], small=True, device="cpu") for _ in range(2))
    assert torch.equal(first.args[0], second.args[0])
    assert all(map(torch.equal, first.model.parameters(), second.model.parameters()))


def test_a_model_without_its_package_says_what_to_install() -> None:
    model = BenchModel("x", "", MODELS["ssm"].build, ("torch", "no_such_package"))
    assert model.missing == ["no_such_package"] and model.advice == "pip install no_such_package"
    assert MODELS["ssm"].advice is None


def test_a_name_that_no_model_has_is_refused_and_a_spec_is_taken() -> None:
    with pytest.raises(UsageError, match="there is no model 'bort'") as caught:
        find_model("bort")
    assert caught.value.code == "TP1056" and "resnet" in str(caught.value.fix)
    assert find_model("net.py:net").name == "net.py:net"
