//! Net on candle.

pub mod model;
