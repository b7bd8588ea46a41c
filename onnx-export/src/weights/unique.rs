//! JSON objects in which no key may come twice.
//!
//! JSON leaves open what a repeated key means, and most readers keep the last. In a header or an index that would
//! drop a tensor in silence, so here it is an error.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// An object whose keys are unique.
#[derive(Debug)]
pub(super) struct UniqueMap<V>(pub(super) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData)).map(Self)
    }
}

struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, V>()? {
            if entries.contains_key(&key) {
                return Err(A::Error::custom(format!("`{key}` comes twice")));
            }
            entries.insert(key, value);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_comes_twice_is_an_error() {
        let read = |text| serde_json::from_str::<UniqueMap<u8>>(text).map(|map| map.0);
        assert_eq!(read(r#"{"a": 1, "b": 2}"#).unwrap(), BTreeMap::from([("a".into(), 1), ("b".into(), 2)]));
        assert!(read(r#"{"a": 1, "b": 2, "a": 1}"#).unwrap_err().to_string().contains("`a` comes twice"));
        assert!(read("[]").is_err());
    }
}
