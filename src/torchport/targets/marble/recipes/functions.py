"""Functions of one value: each neuron of the group has one synapse, from the neuron at its place."""

from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.registry import rows

_OF_ONE = """
    exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh asinh acosh atanh rsqrt sqrt
    reciprocal sigmoid tanh erf erfc relu relu6 silu mish hardswish hardsigmoid log_sigmoid floor ceil trunc round
    sign abs neg logical_not bitwise_not isnan isinf isfinite isposinf isneginf signbit gelu elu leaky_relu hardtanh
    clamp clamp_min clamp_max softplus selu celu hardshrink softshrink threshold square frac nan_to_num erfinv
"""
_WITH_A_NUMBER = """
    pow.Tensor_Scalar pow.Scalar eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar round.decimals
    remainder.Scalar fmod.Scalar floor_divide.Scalar div.Scalar_mode
    bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar __and__.Scalar __or__.Scalar __xor__.Scalar
    __lshift__.Scalar __rshift__.Scalar bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar
    copysign.Scalar
"""
_OTHER_DTYPES = "_to_copy.default to.dtype to.dtype_layout to.device to.other type_as.default"

FUNCTIONS = (
    *(f"aten.{name}.default" for name in _OF_ONE.split()),
    *(f"aten.{name}" for name in (_WITH_A_NUMBER + _OTHER_DTYPES).split()),
)
rows(Kind.FUNCTION, FUNCTIONS)
