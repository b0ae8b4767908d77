"""Operations by name: what torch has is found, and arguments are bound as torch itself binds them."""

import pytest
import torch

from torchport.capture import operations
from torchport.errors import CaptureError

X = torch.linspace(-1, 1, 12).reshape(1, 3, 4)


@pytest.mark.parametrize(
    "name", ["aten.gelu.default", "aten.add.Tensor", "aten.__and__.Tensor", "prims.sin.default"]
)
def test_a_name_is_found_and_is_the_name_of_what_is_found(name: str) -> None:
    assert operations.is_operation(name)
    assert str(operations.overload(name)) == name
    assert operations.overload(name) is operations.overload(name)


@pytest.mark.parametrize(
    "name",
    [
        "aten.gelu",
        "gelu",
        "",
        "..",
        "aten..default",
        "aten.no_such.default",
        "aten.gelu.other",
        "nobody.gelu.default",
        "aten.name.default",
        "call",
        "aten.gelu.default.more",
    ],
)
def test_a_name_that_torch_does_not_have_is_named(name: str) -> None:
    assert not operations.is_operation(name)
    with pytest.raises(CaptureError, match="TP0207") as caught:
        operations.overload(name)
    assert repr(name) in caught.value.message and torch.__version__ in caught.value.message


def test_arguments_are_those_of_the_schema() -> None:
    x, weight, bias = operations.arguments("aten.linear.default")
    assert (x.name, x.type, x.is_required, x.is_optional_tensor) == ("input", "Tensor", True, False)
    assert (bias.name, bias.default, bias.is_required, bias.is_optional_tensor) == ("bias", None, False, True)
    assert weight.name == "weight" and not weight.is_keyword_only
    assert operations.arguments("aten.gelu.default")[1].is_keyword_only


def test_all_forms_of_an_operation_are_listed() -> None:
    assert {"aten.add.Tensor", "aten.add.Scalar"} <= set(operations.overloads("aten.add"))
    assert operations.overloads("aten.no_such") == ()


@pytest.mark.parametrize(
    ("name", "mutates"),
    [
        ("aten.add.Tensor", False),
        ("aten.add_.Tensor", True),
        ("aten.add.out", True),
        ("aten.copy_.default", True),
    ],
)
def test_an_operation_that_writes_to_an_argument_is_known(name: str, mutates: bool) -> None:
    assert operations.is_mutating(name) is mutates
    assert operations.is_mutating(name) is operations.overload(name)._schema.is_mutable


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("aten.gelu.default", (X,), {}),
        ("aten.gelu.default", (X,), {"approximate": "tanh"}),
        ("aten.max_pool1d.default", (X, [2]), {"ceil_mode": True}),
        ("aten.sum.dim_IntList", (X, [1]), {"dtype": torch.float64}),
        ("aten.native_layer_norm.default", (X, [4], None, None, 1e-5), {}),
    ],
)
def test_a_call_by_bound_names_is_the_same_call(name: str, args: tuple, kwargs: dict) -> None:
    operation = operations.overload(name)
    bound = operations.bind(name, args, kwargs)
    assert list(bound) == [argument.name for argument in operations.arguments(name)]
    torch.testing.assert_close(operation(**bound), operation(*args, **kwargs), rtol=0, atol=0)


def test_what_is_given_is_without_defaults() -> None:
    assert operations.given("aten.gelu.default", (X,), {}) == {"self": X}
    assert operations.given("aten.gelu.default", (), {"approximate": "tanh"}) == {"approximate": "tanh"}


def test_a_default_that_is_changed_stays_as_torch_has_it() -> None:
    name = "aten.max_pool1d.default"
    operations.bind(name, (X, [2]), {})["padding"].append(99)
    assert 99 not in operations.bind(name, (X, [2]), {})["padding"]


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "without its argument 'self'"),
        ((X, "tanh", 1), {}, "takes 2 arguments, and 3 are given"),
        ((X,), {"slope": 1}, "has no argument 'slope'"),
        ((X,), {"self": X}, "its argument 'self' twice"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args: tuple, kwargs: dict, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        operations.bind("aten.gelu.default", args, kwargs)
