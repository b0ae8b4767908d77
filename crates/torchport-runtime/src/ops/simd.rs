//! Compiles a function for several x86 instruction sets and picks one at run time, so that plain
//! loops over slices use the vector registers of the machine they run on.

/// Wraps a generic function. The body must not rely on fused multiply-add: rounding stays the same
/// on every machine.
macro_rules! simd {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$T:ident: $Bound:ident $(, const $C:ident: usize)?>(
        $($arg:ident: $ty:ty),* $(,)?
    ) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name<$T: $Bound $(, const $C: usize)?>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn portable<$T: $Bound $(, const $C: usize)?>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                fn avx512<$T: $Bound $(, const $C: usize)?>($($arg: $ty),*) $(-> $ret)? {
                    portable::<$T $(, $C)?>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2<$T: $Bound $(, const $C: usize)?>($($arg: $ty),*) $(-> $ret)? {
                    portable::<$T $(, $C)?>($($arg),*)
                }
                if is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the features were just detected; AVX-512VL implies AVX-512F and AVX2.
                    return unsafe { avx512::<$T $(, $C)?>($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the features were just detected.
                    return unsafe { avx2::<$T $(, $C)?>($($arg),*) };
                }
            }
            portable::<$T $(, $C)?>($($arg),*)
        }
    };
}
pub(crate) use simd;
