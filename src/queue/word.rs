//! Enums of plain words in text columns.

use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde_json::Value;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Sqlite, Type};

/// An enum whose variants serde writes as strings, so that the database and the API use the same words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<T>(pub T);

impl<T> Type<Sqlite> for Word<T> {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        <str as Type<Sqlite>>::compatible(info)
    }
}

impl<T: Serialize> Encode<'_, Sqlite> for Word<T> {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        match serde_json::to_value(&self.0)? {
            Value::String(word) => Encode::<Sqlite>::encode(word, buffer),
            other => Err(format!("`{other}` is not a word").into()),
        }
    }
}

impl<'r, T: DeserializeOwned> Decode<'r, Sqlite> for Word<T> {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        let word = <&str as Decode<Sqlite>>::decode(value)?;
        Ok(Self(T::deserialize(word.into_deserializer()).map_err(|e: value::Error| e)?))
    }
}
