//! Runs Block on the tensors of a file: `cargo run -- inputs.safetensors outputs.safetensors`.

use candle::{DType, Device, Result};
use candle_nn::VarBuilder;
use net::model::{Block, Config};
use torchport_runtime::run::Options;

fn main() -> Result<()> {
    let options = Options::parse()?;
    let device = Device::Cpu;
    let config: Config = options.read_config()?;
    // Safety: the file is only mapped, and nothing else writes to it meanwhile.
    let vb =
        unsafe { VarBuilder::from_mmaped_safetensors(&[&options.weights], DType::F32, &device)? };
    let model = Block::new(&config, vb)?;
    options.run(&["input_0", "dense"], &device, |inputs| {
        Ok(vec![model.forward(&inputs[0], &inputs[1])?])
    })
}
