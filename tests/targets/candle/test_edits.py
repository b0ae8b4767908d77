"""Edits of generated source: shown as hunks, and made again in other source, whatever its variables are called."""

from torchport.targets.candle.edits import carried, edits_of
from torchport.targets.hunks import hunks

GENERATED = """\
impl Block {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self { norm: nn::layer_norm(cfg.hidden_size, 1e-12, vb.pp("norm"))? })
    }
    fn forward(&self, xs: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let out = self.norm.forward(xs)?;
        check!(self.probe, (&out + mask)?.apply(&self.act)?)
    }
}
"""
OTHER = """\
impl Slice {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self { norm: nn::layer_norm(cfg.hidden_size, 1e-12, vb.pp("norm"))? })
    }
    fn forward(&self, input_0: &Tensor, input_1: &Tensor) -> Result<Tensor> {
        let out = self.norm.forward(input_0)?;
        check!(self.probe, (&out + input_1)?)
    }
}
"""


def edited(old: str, new: str) -> str:
    assert GENERATED.count(old) == 1
    return GENERATED.replace(old, new)


def moved(old: str, new: str) -> str:
    """The other source with the edit made in it."""
    first = next(carried(edits_of(GENERATED, edited(old, new)), OTHER))
    return "".join(first.split())


def test_no_edit_is_no_hunk() -> None:
    assert hunks(GENERATED, GENERATED, "model.rs") == ()
    assert edits_of(GENERATED, GENERATED) == []


def test_white_space_and_comments_are_no_edit() -> None:
    text = GENERATED.replace("        let out", "        // the norm first\n\n    let  out")
    assert edits_of(GENERATED, text) == []
    assert len(hunks(GENERATED, text, "model.rs")) == 1


def test_a_hunk_shows_the_line_before_and_after() -> None:
    (hunk,) = hunks(GENERATED, edited("1e-12", "1e-5"), "model.rs")
    assert hunk.startswith("@@ -2,3 +2,3 @@")
    assert '-        Ok(Self { norm: nn::layer_norm(cfg.hidden_size, 1e-12, vb.pp("norm"))? })' in hunk
    assert '+        Ok(Self { norm: nn::layer_norm(cfg.hidden_size, 1e-5, vb.pp("norm"))? })' in hunk


def test_a_number_is_carried_over() -> None:
    assert moved("1e-12", "1e-5") == "".join(OTHER.replace("1e-12", "1e-5").split())


def test_an_expression_is_carried_over_though_a_variable_has_another_name() -> None:
    assert "check!(self.probe,out.clone())" in moved("(&out + mask)?", "out.clone()")
    assert "(&out-input_1)?" in moved("+ mask", "- mask")


def test_what_fits_nowhere_is_left_out() -> None:
    edits = edits_of(GENERATED, edited(".apply(&self.act)?", ".apply(&self.other)?"))
    assert list(carried(edits, "fn unrelated() { 1 }")) == []


def test_changes_next_to_each_other_are_one() -> None:
    assert len(edits_of(GENERATED, edited("(&out + mask)?", "out.clone()"))) == 1
    both = edited("1e-12", "1e-5").replace("+ mask", "- mask")
    assert len(edits_of(GENERATED, both)) == 2
