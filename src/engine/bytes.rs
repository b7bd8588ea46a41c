//! Numbers of bytes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `40GiB`, `512MiB`, `1.5GiB`, or plain `1073741824`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Units, largest first.
const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, size)| self.0 >= *size) {
            Some((unit, size)) => write!(f, "{:.2} {unit}", self.0 as f64 / *size as f64),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("`{text}` is not a number of bytes; write it like `40GiB` or `512MiB`");
        let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
        let Some((number, size)) = unit else { return text.parse().map(Self).map_err(|_| invalid()) };
        let number: f64 = number.trim_end().parse().map_err(|_| invalid())?;
        let bytes = number * size as f64;
        if !(bytes >= 0.0 && bytes < u64::MAX as f64) {
            return Err(invalid());
        }
        Ok(Self(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("40GiB", 40 << 30), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("4096", 4096), ("0", 0)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "GiB", "40GB", "-1GiB", "NaNGiB", "1e30TiB", "40 gib"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_fits() {
        let shown = [0, 1023, 1 << 20, 3 << 29].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(shown, ["0 bytes", "1023 bytes", "1.00 MiB", "1.50 GiB"]);
    }
}
