//! What a model takes, held against the tensors of a file before the model runs on them.

use crate::check::{read_tensors, CheckError};
use candle::{DType, Device, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

/// One input of a model: the name of its tensor and, if they are known, its dtype and its shape, such as
/// `[batch, 3, 2<=length<=512, cfg.width]`. A name stands for a size that is free, and the same wherever it occurs,
/// `cfg.width` for that of the model's config, and `_` for any size.
#[derive(Debug, Clone)]
pub struct Input {
    name: String,
    form: Option<(DType, Vec<Axis>)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Axis {
    Fixed(usize),
    /// A size of the model's config, once that is read.
    Config {
        name: String,
        size: Option<usize>,
    },
    Free {
        name: String,
        least: Option<usize>,
        most: Option<usize>,
    },
    Any,
}

impl From<&str> for Input {
    fn from(name: &str) -> Self {
        let name = name.to_string();
        Self { name, form: None }
    }
}

impl From<(&str, DType, &str)> for Input {
    fn from((name, dtype, shape): (&str, DType, &str)) -> Self {
        let axes = shape.trim_matches(['[', ']']).split(',').map(str::trim);
        let axes = axes.filter(|axis| !axis.is_empty()).map(Axis::parse);
        Self {
            name: name.to_string(),
            form: Some((dtype, axes.collect())),
        }
    }
}

impl Input {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same input of a model with this config.
    pub(crate) fn with_config(mut self, config: &serde_json::Value) -> Self {
        for axis in self.form.iter_mut().flat_map(|(_, axes)| axes) {
            if let Axis::Config { name, size } = axis {
                *size = config[&*name].as_u64().map(|size| size as usize);
            }
        }
        self
    }
}

impl Axis {
    fn parse(text: &str) -> Self {
        if text == "_" {
            return Self::Any;
        }
        if let Ok(size) = text.parse() {
            return Self::Fixed(size);
        }
        if let Some(name) = text.strip_prefix("cfg.") {
            let name = name.to_string();
            return Self::Config { name, size: None };
        }
        let mut parts = text.split("<=").peekable();
        let least = parts.peek().and_then(|part| part.parse().ok());
        if least.is_some() {
            parts.next();
        }
        Self::Free {
            name: parts.next().unwrap_or_default().to_string(),
            least,
            most: parts.next().and_then(|part| part.parse().ok()),
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Config { name, .. } => write!(f, "cfg.{name}"),
            Self::Free { name, least, most } => {
                if let Some(least) = least {
                    write!(f, "{least}<=")?;
                }
                write!(f, "{name}")?;
                most.map_or(Ok(()), |most| write!(f, "<={most}"))
            }
            Self::Any => write!(f, "_"),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Some((dtype, axes)) = &self.form else {
            return write!(f, "a tensor");
        };
        let axes: Vec<String> = axes.iter().map(Axis::to_string).collect();
        write!(f, "{} [{}]", dtype.as_str(), axes.join(", "))
    }
}

/// Why the tensors of a file are not the inputs of a model: everything that is wrong, each with its name.
#[derive(Debug, thiserror::Error)]
#[error("{} does not fit the model:{}\nthe model takes:{}", file.display(), indented(faults), indented(takes))]
pub(crate) struct Misfit {
    file: PathBuf,
    faults: Vec<String>,
    takes: Vec<String>,
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// The tensors of a file in the order of the inputs.
pub(crate) fn read_inputs(
    file: &Path,
    inputs: &[Input],
    device: &Device,
) -> candle::Result<Vec<Tensor>> {
    let misfit = |faults| Misfit {
        file: file.to_path_buf(),
        faults,
        takes: inputs
            .iter()
            .map(|one| format!("{}: {one}", one.name))
            .collect(),
    };
    let mut tensors = read_tensors(file, device).map_err(|error| match error {
        CheckError::UnsupportedDtype { key, dtype } => {
            let fault = format!("{key}: its dtype is {dtype}, which candle cannot hold");
            candle::Error::wrap(misfit(vec![fault]))
        }
        error => error.into(),
    })?;
    let faults = faults(inputs, &tensors);
    if !faults.is_empty() {
        return Err(candle::Error::wrap(misfit(faults)));
    }
    Ok(inputs
        .iter()
        .filter_map(|input| tensors.remove(&input.name))
        .collect())
}

fn faults(inputs: &[Input], tensors: &HashMap<String, Tensor>) -> Vec<String> {
    let mut sizes = BTreeMap::new();
    let mut faults: Vec<String> = inputs
        .iter()
        .filter_map(|input| {
            match tensors.get(&input.name) {
                Some(tensor) => input.fault(tensor, &mut sizes),
                None => Some("there is no such tensor".to_string()),
            }
            .map(|fault| format!("{}: {fault}", input.name))
        })
        .collect();
    let mut others: Vec<&String> = tensors
        .keys()
        .filter(|name| inputs.iter().all(|input| input.name != **name))
        .collect();
    others.sort();
    faults.extend(
        others
            .iter()
            .map(|name| format!("{name}: the model takes no such tensor")),
    );
    faults
}

impl Input {
    /// What is wrong with a tensor for this input. `sizes` are the free sizes that are known, with the input of each.
    fn fault(
        &self,
        tensor: &Tensor,
        sizes: &mut BTreeMap<String, (usize, String)>,
    ) -> Option<String> {
        let (dtype, axes) = self.form.as_ref()?;
        let given = || format!("it is {}, not {self}", described(tensor));
        if tensor.dtype() != *dtype || tensor.rank() != axes.len() {
            return Some(given());
        }
        for (number, (axis, &size)) in axes.iter().zip(tensor.dims()).enumerate() {
            match axis {
                Axis::Fixed(fixed)
                | Axis::Config {
                    size: Some(fixed), ..
                } if size != *fixed => {
                    return Some(format!("{}: axis {number} has to be {fixed}", given()))
                }
                Axis::Free { name, least, most } => {
                    if let Some(least) = least.filter(|least| size < *least) {
                        return Some(format!("{}: {name} has to be {least} at least", given()));
                    }
                    if let Some(most) = most.filter(|most| size > *most) {
                        return Some(format!("{}: {name} can be {most} at most", given()));
                    }
                    let (known, first) = sizes
                        .entry(name.clone())
                        .or_insert_with(|| (size, self.name.clone()));
                    if size != *known {
                        return Some(format!("{}: {name} is {known} in {first}", given()));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// The dtype and the shape of a tensor, in a few words.
pub(crate) fn described(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.dtype().as_str(), tensor.dims())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::write_tensors;

    fn table() -> Vec<Input> {
        let config = serde_json::json!({"width": 4});
        vec![
            ("ids", DType::I64, "[batch, 2<=length<=8]").into(),
            ("mask", DType::U8, "[batch, length]").into(),
            ("scale", DType::F32, "[]").into(),
            Input::from(("image", DType::F32, "[_, 3, cfg.width]")).with_config(&config),
        ]
    }

    fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
        Tensor::zeros(shape, dtype, &Device::Cpu).unwrap()
    }

    fn right() -> BTreeMap<&'static str, Tensor> {
        BTreeMap::from([
            ("ids", zeros(DType::I64, &[2, 5])),
            ("mask", zeros(DType::U8, &[2, 5])),
            ("scale", zeros(DType::F32, &[])),
            ("image", zeros(DType::F32, &[7, 3, 4])),
        ])
    }

    fn read(tensors: &BTreeMap<&'static str, Tensor>) -> candle::Result<Vec<Tensor>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inputs.safetensors");
        write_tensors(tensors.iter().map(|(name, tensor)| (*name, tensor)), &file).unwrap();
        read_inputs(&file, &table(), &Device::Cpu)
    }

    #[test]
    fn tensors_that_fit_come_in_the_order_of_the_table() {
        let ranks: Vec<usize> = read(&right()).unwrap().iter().map(Tensor::rank).collect();
        assert_eq!(ranks, [2, 2, 0, 3]);
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_was_expected() {
        for (name, tensor, said) in [
            (
                "ids",
                zeros(DType::F32, &[2, 5]),
                "ids: it is f32 [2, 5], not i64 [batch, 2<=length<=8]",
            ),
            (
                "ids",
                zeros(DType::I64, &[5]),
                "ids: it is i64 [5], not i64 [batch, 2<=length<=8]",
            ),
            ("ids", zeros(DType::I64, &[2, 9]), "length can be 8 at most"),
            (
                "ids",
                zeros(DType::I64, &[2, 1]),
                "length has to be 2 at least",
            ),
            (
                "mask",
                zeros(DType::U8, &[2, 4]),
                "mask: it is u8 [2, 4], not u8 [batch, length]: length is 5 in ids",
            ),
            (
                "scale",
                zeros(DType::F32, &[1]),
                "scale: it is f32 [1], not f32 []",
            ),
            (
                "image",
                zeros(DType::F32, &[2, 4, 4]),
                "image: it is f32 [2, 4, 4], not f32 [_, 3, cfg.width]: axis 1 has to be 3",
            ),
            (
                "image",
                zeros(DType::F32, &[2, 3, 5]),
                "not f32 [_, 3, cfg.width]: axis 2 has to be 4",
            ),
            (
                "other",
                zeros(DType::F32, &[2]),
                "other: the model takes no such tensor",
            ),
        ] {
            let mut tensors = right();
            tensors.insert(name, tensor);
            let error = read(&tensors).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(
                error.contains("\nthe model takes:\n  ids: i64 [batch, 2<=length<=8]"),
                "{error}"
            );
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let error = read(&BTreeMap::new()).unwrap_err().to_string();
        for name in ["ids", "mask", "scale", "image"] {
            assert!(
                error.contains(&format!("\n  {name}: there is no such tensor")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_input_of_which_only_the_name_is_known_may_be_anything() {
        let tensors = HashMap::from([("x".to_string(), zeros(DType::F64, &[1, 2, 3]))]);
        assert!(faults(&["x".into()], &tensors).is_empty());
    }
}
