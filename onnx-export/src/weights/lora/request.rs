//! Which adapter shall be merged into which expert, and how strongly.

use std::path::PathBuf;
use std::str::FromStr;

use super::LoraScale;
use crate::models::Net;

/// An adapter for one expert, written `FILE@high=STRENGTH` or `FILE@low=STRENGTH`; the rule of its scale may stand
/// behind the expert, as in `FILE@low:rslora=0.8`.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterFile {
    /// The file.
    pub path: PathBuf,
    /// The expert it is for.
    pub net: Net,
    /// The rule of its scale; without one, that which the adapter's own settings name, else `alpha / rank`.
    pub rule: Option<LoraScale>,
    /// What the scale is multiplied with.
    pub strength: f64,
}

impl FromStr for AdapterFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (path, rest) = text.rsplit_once('@')?;
            let (target, strength) = rest.split_once('=')?;
            let (expert, told) = match target.split_once(':') {
                Some((expert, told)) => (expert, Some(told)),
                None => (target, None),
            };
            let net = match expert {
                "high" => Net::TransformerHigh,
                "low" => Net::TransformerLow,
                _ => return None,
            };
            let rule = told.map(str::parse).transpose().ok()?;
            let strength = strength.parse().ok().filter(|strength: &f64| strength.is_finite())?;
            (!path.is_empty()).then(|| Self { path: path.into(), net, rule, strength })
        };
        let adapter = parse().ok_or_else(|| {
            format!(
                "`{text}` is not an adapter; write `FILE@high=STRENGTH` or `FILE@low=STRENGTH`, with `:rslora`, \
                 `:plain` or `:NUMBER` behind the expert when the file does not say how its scale is meant"
            )
        })?;
        match adapter.strength {
            0.0 => Err(format!("`{text}` has strength 0, which changes nothing; leave the adapter out")),
            _ => Ok(adapter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_parsed_from_the_right() {
        let adapter: AdapterFile = "a@b=c/x.safetensors@low=-0.5".parse().unwrap();
        let path = PathBuf::from("a@b=c/x.safetensors");
        assert_eq!(adapter, AdapterFile { path, net: Net::TransformerLow, rule: None, strength: -0.5 });
        for (text, rule) in [
            ("x@high:rslora=1", LoraScale::RankStabilised),
            ("x@high:plain=1", LoraScale::Plain),
            ("x@high:0.25=1", LoraScale::Fixed(0.25)),
        ] {
            assert_eq!(text.parse::<AdapterFile>().unwrap().rule, Some(rule), "{text}");
        }
        for text in [
            "",
            "folder",
            "@high=1",
            "x@both=1",
            "x@high",
            "x@high=",
            "x@low=inf",
            "x@low=nan",
            "x@low:rs=1",
            "x@low=0",
            "x@low=-0",
        ] {
            assert!(text.parse::<AdapterFile>().is_err(), "{text}");
        }
    }
}
