//! How strongly an adapter's update is added: the scale of `B A`.
//!
//! Alpha is a number that a trainer keeps beside a pair of factors so that the update's size does not depend on the
//! rank. What it means depends on the rule of the training: `alpha / rank` as LoRA was published, `alpha / sqrt(rank)`
//! when it was rank-stabilised (PEFT's `use_rslora`). The file tells alpha, but hardly ever the rule.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the scale of an update follows from its alpha and rank. A pair without alpha means alpha = rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LoraScale {
    /// `alpha / sqrt(rank)`, as StoryMem was trained: 11.3137 at rank 128.
    #[default]
    RankStabilised,
    /// `alpha / rank`, as most other adapters are.
    Plain,
    /// This number, whatever alpha and rank are.
    Fixed(f64),
}

impl LoraScale {
    /// The scale of a pair of this rank.
    pub fn of(self, alpha: Option<f64>, rank: usize) -> f64 {
        let rank = rank as f64;
        let alpha = alpha.unwrap_or(rank);
        match self {
            Self::RankStabilised => alpha / rank.sqrt(),
            Self::Plain => alpha / rank,
            Self::Fixed(scale) => scale,
        }
    }
}

impl fmt::Display for LoraScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RankStabilised => f.write_str("rslora"),
            Self::Plain => f.write_str("plain"),
            Self::Fixed(scale) => scale.fmt(f),
        }
    }
}

impl FromStr for LoraScale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rslora" => Ok(Self::RankStabilised),
            "plain" => Ok(Self::Plain),
            _ => match text.parse() {
                Ok(scale) if f64::is_finite(scale) => Ok(Self::Fixed(scale)),
                _ => Err(format!("`{text}` is not a LoRA scale; use `rslora`, `plain` or a number")),
            },
        }
    }
}

impl TryFrom<String> for LoraScale {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LoraScale> for String {
    fn from(scale: LoraScale) -> Self {
        scale.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storymems_scale_is_rank_stabilised() {
        assert!((LoraScale::default().of(None, 128) - 11.313_708_5).abs() < 1e-7);
        assert_eq!("rslora".parse(), Ok(LoraScale::default()));
        assert_eq!("plain".parse::<LoraScale>().unwrap().of(None, 128), 1.0);
        assert_eq!("plain".parse::<LoraScale>().unwrap().of(Some(64.0), 128), 0.5);
        assert_eq!("0.7".parse::<LoraScale>().unwrap().of(Some(64.0), 128), 0.7);
        for text in ["", "rs", "nan", "inf", "1x"] {
            assert!(text.parse::<LoraScale>().is_err(), "{text}");
        }
    }

    #[test]
    fn is_recorded_as_it_is_told() {
        for scale in
            [LoraScale::RankStabilised, LoraScale::Plain, LoraScale::Fixed(-0.1), LoraScale::Fixed(2.0)]
        {
            let json = serde_json::to_string(&scale).unwrap();
            assert_eq!(serde_json::from_str::<LoraScale>(&json).unwrap(), scale, "{json}");
        }
        assert!(serde_json::from_str::<LoraScale>("\"twice\"").is_err());
    }
}
