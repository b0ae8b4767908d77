//! Plans of Fourier transforms, made once for each length and shared by all that compute one.

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

pub use realfft::FftNum;
pub use rustfft::num_complex::Complex;

/// The plans that were made for one type of number.
pub struct Plans<T: FftNum> {
    real: Mutex<RealFftPlanner<T>>,
    complex: Mutex<FftPlanner<T>>,
}

impl<T: FftNum> Plans<T> {
    fn new() -> Self {
        Self {
            real: Mutex::new(RealFftPlanner::new()),
            complex: Mutex::new(FftPlanner::new()),
        }
    }
}

/// A type of number that transforms compute in.
pub trait Sample: FftNum {
    fn plans() -> &'static Plans<Self>;
}

macro_rules! sample {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            fn plans() -> &'static Plans<Self> {
                static PLANS: LazyLock<Plans<$type>> = LazyLock::new(Plans::new);
                &PLANS
            }
        }
    )*};
}

sample!(f32, f64);

/// A planner is a cache, which is whole also after a panic.
fn locked<P>(planner: &Mutex<P>) -> MutexGuard<'_, P> {
    planner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From `length` real numbers to the `length / 2 + 1` complex ones that the others mirror.
pub fn of_real<T: Sample>(length: usize) -> Arc<dyn RealToComplex<T>> {
    locked(&T::plans().real).plan_fft_forward(length)
}

/// From `length / 2 + 1` complex numbers, after `make_hermitian`, to `length` real ones, not divided by anything.
pub fn to_real<T: Sample>(length: usize) -> Arc<dyn ComplexToReal<T>> {
    locked(&T::plans().real).plan_fft_inverse(length)
}

/// Between `length` complex numbers, not divided by anything.
pub fn of_complex<T: Sample>(length: usize, forward: bool) -> Arc<dyn Fft<T>> {
    let mut planner = locked(&T::plans().complex);
    match forward {
        true => planner.plan_fft_forward(length),
        false => planner.plan_fft_inverse(length),
    }
}

/// Takes those numbers for real that have to be so in the first half of a transform of `length` real numbers.
pub fn make_hermitian<T: Sample>(half: &mut [Complex<T>], length: usize) {
    half[0].im = T::zero();
    if length.is_multiple_of(2) {
        half[length / 2].im = T::zero();
    }
}
