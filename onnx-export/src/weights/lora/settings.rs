//! What an adapter says of itself beside its tensors.
//!
//! PEFT keeps alpha out of the weights: it stands in `adapter_config.json` beside `adapter_model.safetensors`, and
//! diffusers writes the same object into the file's own header. Passing over it is how an adapter comes out at half or
//! twice its strength, so it is read, and what it asks for beyond a pair of factors is refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::LoraError;
use crate::weights::file::TensorFile;

/// The weights beside which PEFT puts its settings, and these.
const PEFT: [&str; 2] = ["adapter_model.safetensors", "adapter_config.json"];

/// Where diffusers puts PEFT's settings in a file's header, and what it puts before each field's name.
const DIFFUSERS: (&str, [&str; 2]) = ("lora_adapter_metadata", ["transformer.", "transformer_2."]);

/// Characters that make a pattern of modules more than a name.
const REGEX: &[char] = &['\\', '*', '+', '?', '[', ']', '(', ')', '{', '}', '|', '^', '$'];

/// PEFT's settings, as far as they say what is to be added to a weight.
#[derive(Debug, Deserialize)]
pub(super) struct Settings {
    /// The file that they stand in, if it is not the adapter's own.
    #[serde(skip)]
    pub(super) file: Option<PathBuf>,
    peft_type: Option<String>,
    #[serde(default)]
    r: Option<usize>,
    lora_alpha: Option<f64>,
    #[serde(default)]
    pub(super) use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    fan_in_fan_out: bool,
    bias: Option<String>,
    #[serde(default)]
    rank_pattern: BTreeMap<String, usize>,
    #[serde(default)]
    alpha_pattern: BTreeMap<String, f64>,
}

impl Settings {
    /// The settings of the adapter in `file`, if there are any.
    pub(super) fn read(file: &TensorFile) -> Result<Option<Self>, LoraError> {
        let path = file.path();
        let problem = |problem: String| LoraError::Settings { path: path.into(), problem };
        let damaged = |e: serde_json::Error| problem(format!("are damaged ({e})"));
        let beside = path.with_file_name(PEFT[1]);
        let settings: Self = if let Some(text) = file.metadata().get(DIFFUSERS.0) {
            let fields: Map<String, Value> = serde_json::from_str(text).map_err(damaged)?;
            let bare = |name: String| {
                let rest = DIFFUSERS.1.iter().find_map(|prefix| name.strip_prefix(prefix));
                rest.map_or_else(|| name.clone(), str::to_owned)
            };
            let fields = fields.into_iter().map(|(name, value)| (bare(name), value)).collect();
            serde_json::from_value(Value::Object(fields)).map_err(damaged)?
        } else if path.ends_with(PEFT[0]) && beside.exists() {
            let text = std::fs::read(&beside)
                .map_err(|e| problem(format!("can't be read from `{}` ({e})", PEFT[1])))?;
            Self { file: Some(beside), ..serde_json::from_slice(&text).map_err(damaged)? }
        } else {
            return Ok(None);
        };
        match settings.unsupported() {
            Some(what) => Err(problem(what)),
            None => Ok(Some(settings)),
        }
    }

    fn unsupported(&self) -> Option<String> {
        let refuse = |what: &str| Some(format!("ask for {what}, which can't be merged"));
        let patterns = self.rank_pattern.keys().chain(self.alpha_pattern.keys());
        match self {
            Self { peft_type: Some(kind), .. } if kind != "LORA" => refuse(&format!("`{kind}`")),
            Self { use_dora: true, .. } => refuse("DoRA"),
            Self { fan_in_fan_out: true, .. } => refuse("transposed weights (`fan_in_fan_out`)"),
            Self { bias: Some(bias), .. } if bias != "none" => refuse("trained biases"),
            Self { lora_alpha: Some(alpha), .. } if !positive(*alpha) => {
                Some(format!("have the alpha {alpha}, which is not positive and finite"))
            }
            _ => {
                let regex = patterns.into_iter().find(|pattern| pattern.contains(REGEX))?;
                Some(format!("have the pattern `{regex}`, which is no plain name of a module"))
            }
        }
    }

    /// The alpha of a module of this rank.
    pub(super) fn alpha(&self, module: &str, rank: usize) -> Result<Option<f64>, String> {
        let told = of(&self.rank_pattern, module).or(self.r.as_ref());
        match told {
            Some(told) if *told != rank => {
                Err(format!("tell rank {told} for `{module}`, whose factors have rank {rank}"))
            }
            _ => Ok(of(&self.alpha_pattern, module).or(self.lora_alpha.as_ref()).copied()),
        }
    }
}

pub(super) fn positive(alpha: f64) -> bool {
    alpha.is_finite() && alpha > 0.0
}

/// The value for `module`: patterns are its name or the last segments of it.
fn of<'a, V>(patterns: &'a BTreeMap<String, V>, module: &str) -> Option<&'a V> {
    let fits = |pattern: &str| {
        module.strip_suffix(pattern).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    patterns.iter().find(|(pattern, _)| fits(pattern)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> Settings {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn alpha_and_rank_may_differ_by_module() {
        let settings = settings(
            r#"{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": true, "bias": "none",
                "rank_pattern": {"ffn.0": 4}, "alpha_pattern": {"blocks.1.ffn.0": 2.5}, "target_modules": ["q"]}"#,
        );
        assert!(settings.use_rslora && settings.unsupported().is_none());
        assert_eq!(settings.alpha("blocks.0.self_attn.q", 8), Ok(Some(16.0)));
        assert_eq!(settings.alpha("blocks.1.ffn.0", 4), Ok(Some(2.5)));
        assert_eq!(settings.alpha("blocks.11.ffn.0", 4), Ok(Some(16.0)));
        assert!(
            settings.alpha("blocks.1.ffn.0", 8).unwrap_err().contains("tell rank 4 for `blocks.1.ffn.0`")
        );
        assert_eq!(settings.alpha("blocks.1.self_ffn.0", 8), Ok(Some(16.0)));
    }

    #[test]
    fn what_a_pair_of_factors_can_not_express_is_refused() {
        for (json, says) in [
            (r#"{"peft_type": "LOHA"}"#, "`LOHA`"),
            (r#"{"use_dora": true}"#, "DoRA"),
            (r#"{"bias": "all"}"#, "biases"),
            (r#"{"fan_in_fan_out": true}"#, "transposed"),
            (r#"{"lora_alpha": 0}"#, "not positive"),
            (r#"{"alpha_pattern": {".*ffn.*": 1}}"#, "`.*ffn.*`"),
        ] {
            assert!(settings(json).unsupported().unwrap().contains(says), "{json}");
        }
    }
}
