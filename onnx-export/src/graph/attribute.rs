//! Attributes of nodes.

use crate::proto::{AttributeProto, attribute_proto};

/// An attribute of a node.
pub(super) enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Text(&'static str),
}

impl Attribute {
    pub(super) fn to_proto(&self, name: &str) -> AttributeProto {
        use attribute_proto::AttributeType;
        let mut proto = AttributeProto { name: Some(name.into()), ..Default::default() };
        let kind = match self {
            Self::Int(value) => {
                proto.i = Some(*value);
                AttributeType::Int
            }
            Self::Ints(values) => {
                proto.ints = values.clone();
                AttributeType::Ints
            }
            Self::Float(value) => {
                proto.f = Some(*value);
                AttributeType::Float
            }
            Self::Text(value) => {
                proto.s = Some(value.as_bytes().to_vec());
                AttributeType::String
            }
        };
        proto.r#type = Some(kind as i32);
        proto
    }
}
