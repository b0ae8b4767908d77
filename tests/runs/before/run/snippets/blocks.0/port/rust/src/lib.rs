//! Block on candle.

pub mod model;
