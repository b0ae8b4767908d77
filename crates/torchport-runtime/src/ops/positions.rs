//! Where the outputs of a resized axis lie between its inputs.
//!
//! Positions are computed in the precision that torch computes them in, and rounded where it does,
//! so that both agree on which inputs an output lies between.

use candle::DType;

/// One axis of `x` that changes its size.
pub(super) struct Axis {
    pub index: usize,
    pub input: usize,
    pub output: usize,
    pub scale: Option<f64>,
}

/// Inputs and their weights for one output; unused ones have the weight 0.
pub(super) type Taps = [(usize, f64); 4];

impl Axis {
    /// Input positions per output position.
    fn step<P: Position>(&self, align_corners: bool) -> P {
        match (align_corners, self.scale) {
            (true, _) if self.output > 1 => P::of(self.input - 1) / P::of(self.output - 1),
            (true, _) => P::of(0),
            (false, Some(scale)) => P::rounded(1.0 / scale),
            (false, None) => P::of(self.input) / P::of(self.output),
        }
    }

    /// The input below the output's position. For images (`planar`), torch does not look at a scale that
    /// the caller gave if the axis keeps its size or doubles it.
    pub fn nearest(&self, position: usize, planar: bool, dtype: DType) -> usize {
        if planar && self.input == self.output {
            return position;
        }
        if planar && self.output == 2 * self.input {
            return position / 2;
        }
        let source = match dtype {
            DType::F64 => (self.step::<f64>(false) * position as f64) as f32,
            _ => self.step::<f32>(false) * position as f32,
        };
        (source.floor() as usize).min(self.input - 1)
    }

    /// The input below the output's position and the distance to it, from 0 to 1.
    fn source<P: Position>(&self, position: usize, align_corners: bool, cubic: bool) -> (i64, f64) {
        let step: P = self.step(align_corners);
        let source = match align_corners {
            true => step * P::of(position),
            false => step.fused(P::of(position) + P::rounded(0.5), P::rounded(-0.5)),
        };
        let source = if cubic || source > P::of(0) {
            source
        } else {
            P::of(0)
        };
        let below = (source.widened().floor() as i64).min(self.input as i64 - 1);
        let distance = source - P::rounded(below as f64);
        (below, distance.widened().clamp(0.0, 1.0))
    }

    pub fn linear(&self, position: usize, align_corners: bool, dtype: DType) -> Taps {
        if self.input == self.output {
            return [1.0, 0.0, 0.0, 0.0].map(|weight| (position, weight));
        }
        let (below, t) = match dtype {
            DType::F64 => self.source::<f64>(position, align_corners, false),
            _ => self.source::<f32>(position, align_corners, false),
        };
        let below = below as usize;
        let above = (below + 1).min(self.input - 1);
        [(below, 1.0 - t), (above, t), (0, 0.0), (0, 0.0)]
    }

    pub fn cubic(&self, position: usize, align_corners: bool, dtype: DType) -> Taps {
        let (below, t) = match dtype {
            DType::F64 => self.source::<f64>(position, align_corners, true),
            _ => self.source::<f32>(position, align_corners, true),
        };
        const A: f64 = -0.75;
        let near = |t: f64| ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0;
        let far = |t: f64| ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A;
        let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
        let last = self.input as i64 - 1;
        let source = |i: i64| (below + i - 1).clamp(0, last) as usize;
        [0, 1, 2, 3].map(|i| (source(i as i64), weights[i]))
    }
}

/// The precision of source positions.
trait Position:
    Copy
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
{
    fn rounded(v: f64) -> Self;
    fn widened(self) -> f64;
    fn fused(self, a: Self, b: Self) -> Self;
    fn of(v: usize) -> Self {
        Self::rounded(v as f64)
    }
}
impl Position for f32 {
    fn rounded(v: f64) -> Self {
        v as f32
    }
    fn fused(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
    fn widened(self) -> f64 {
        self as f64
    }
}
impl Position for f64 {
    fn rounded(v: f64) -> Self {
        v
    }
    fn fused(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
    fn widened(self) -> f64 {
        self
    }
}
