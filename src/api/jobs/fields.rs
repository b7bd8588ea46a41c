//! Reads a JSON object field by field and remembers everything that is wrong with it.
//!
//! A derived deserialiser stops at the first error and names types of Rust. Here a client learns all errors at once,
//! each with a JSON pointer, what was expected and within which bounds.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde_json::{Map, Value};

use crate::api::problem::FieldError;

/// What is wrong with a request, in the order in which it was found.
#[derive(Debug, Default)]
pub struct Errors(Vec<FieldError>);

impl Errors {
    /// Adds an error.
    pub fn add(&mut self, pointer: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError { pointer: pointer.into(), detail: detail.into() });
    }

    /// `value`, or the error it stands for.
    pub fn keep<T, E: Display>(&mut self, pointer: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|e| self.add(pointer, e.to_string())).ok()
    }

    /// Whether something is wrong at `pointer` itself.
    pub fn mention(&self, pointer: &str) -> bool {
        self.0.iter().any(|error| error.pointer == pointer)
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much is wrong.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Everything that is wrong.
    pub fn into_inner(self) -> Vec<FieldError> {
        self.0
    }
}

/// A JSON object whose fields are taken one by one. A field that is `null` counts as absent.
pub struct Fields<'e> {
    object: Map<String, Value>,
    is_object: bool,
    pointer: String,
    errors: &'e mut Errors,
}

impl<'e> Fields<'e> {
    /// The object at `pointer`; anything else is an error and counts as an empty object.
    pub fn new(value: Value, pointer: impl Into<String>, errors: &'e mut Errors) -> Self {
        let pointer = pointer.into();
        match value {
            Value::Object(object) => Self { object, is_object: true, pointer, errors },
            other => {
                errors.add(pointer.clone(), format!("must be an object, not {}", kind(&other)));
                Self { object: Map::new(), is_object: false, pointer, errors }
            }
        }
    }

    /// Where errors go.
    pub fn errors(&mut self) -> &mut Errors {
        self.errors
    }

    /// Refuses the object if the field is absent.
    pub fn require(&mut self, name: &str, what: &str) {
        if self.is_object && !self.has(name) {
            self.refuse(name, format!("is required: {what}"));
        }
    }

    /// Whether the field is there.
    pub fn has(&self, name: &str) -> bool {
        self.object.get(name).is_some_and(|value| !value.is_null())
    }

    /// The pointer of a field.
    pub fn pointer(&self, name: &str) -> String {
        pointer(&self.pointer, name)
    }

    /// Says that something is wrong with a field.
    pub fn refuse(&mut self, name: &str, detail: impl Into<String>) {
        self.errors.add(self.pointer(name), detail);
    }

    /// A field of any kind.
    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name).filter(|value| !value.is_null())
    }

    /// A string of so many characters.
    pub fn text(&mut self, name: &str, chars: RangeInclusive<usize>) -> Option<String> {
        let what = format!("must be a string of {} to {} characters", chars.start(), chars.end());
        match self.value(name)? {
            Value::String(text) if chars.contains(&text.chars().count()) => Some(text),
            Value::String(text) => self.wrong(name, format!("{what}; it has {}", text.chars().count())),
            other => self.wrong(name, format!("{what}, not {}", kind(&other))),
        }
    }

    /// A string that stands for something.
    pub fn word<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        match self.value(name)? {
            Value::String(text) => {
                let pointer = self.pointer(name);
                let word: Result<T, value::Error> = T::deserialize(text.into_deserializer());
                self.errors.keep(&pointer, word)
            }
            other => self.wrong(name, format!("must be a string, not {}", kind(&other))),
        }
    }

    /// An integer within bounds. `4.0` is one.
    pub fn integer<T>(&mut self, name: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let what = format!("must be an integer from {} to {}", range.start(), range.end());
        let value = self.value(name)?;
        // The bounds in use are exact in an `f64`, and the cast saturates.
        let whole = |x: f64| (x.fract() == 0.0).then_some(x as i64);
        let number = value.as_i64().or_else(|| whole(value.as_f64()?));
        match number.and_then(|n| T::try_from(n).ok()).filter(|n| range.contains(n)) {
            Some(number) => Some(number),
            None => self.wrong(name, format!("{what}, not {}", shown(&value))),
        }
    }

    /// A number within bounds.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.value(name)?;
        let pointer = self.pointer(name);
        self.errors.keep(&pointer, number(&value, range))
    }

    /// A list, with how many elements it may have.
    pub fn list(&mut self, name: &str, lengths: RangeInclusive<usize>) -> Option<Vec<Value>> {
        let what = match (lengths.start(), lengths.end()) {
            (a, b) if a == b => format!("must be a list of {a}"),
            (a, b) => format!("must be a list of {a} to {b}"),
        };
        match self.value(name)? {
            Value::Array(list) if lengths.contains(&list.len()) => Some(list),
            Value::Array(list) => self.wrong(name, format!("{what}; it has {}", list.len())),
            other => self.wrong(name, format!("{what}, not {}", kind(&other))),
        }
    }

    /// Refuses the fields that are left.
    pub fn finish(mut self, known: &str) {
        for (name, _) in std::mem::take(&mut self.object) {
            self.refuse(&name, format!("is not a field; the fields are {known}"));
        }
    }

    fn wrong<T>(&mut self, name: &str, detail: String) -> Option<T> {
        self.refuse(name, detail);
        None
    }
}

/// The JSON pointer (RFC 6901) of the field `name` of what `within` points to.
pub fn pointer(within: &str, name: &str) -> String {
    format!("{within}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A number within bounds, or what is wrong with it.
pub fn number(value: &Value, range: RangeInclusive<f64>) -> Result<f64, String> {
    let what = format!("must be a number from {} to {}", range.start(), range.end());
    value.as_f64().filter(|x| range.contains(x)).ok_or_else(|| format!("{what}, not {}", shown(value)))
}

/// What kind of JSON a value is, with an article.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("`{number}`"),
        other => kind(other).to_owned(),
    }
}
