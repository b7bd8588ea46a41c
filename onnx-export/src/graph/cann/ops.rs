//! Which operators CANN's ONNX front end knows, and at which opsets.
//!
//! Source: the registrations (`*_onnx_plugin.cpp`) in the public repositories of CANN's operators, ops-math, ops-nn and
//! ops-transformer, which newer releases are built from. A key names one opset, so an operator is known at exactly the
//! opsets listed, whatever ONNX says of compatible versions. Operators we neither emit nor need to tell a user about
//! are left out.

use std::ops::RangeInclusive;

/// The opset of our graphs: the only one at which flash attention and the rest are known together.
pub const OPSET: i64 = 16;

/// The vendor's operator for attention.
pub const FLASH_ATTENTION: &str = "NPUPromptFlashAttention";

/// An operator the front end knows.
pub(super) struct Operator {
    /// Its name, in the default domain.
    pub name: &'static str,
    /// Where it is known.
    opsets: &'static [RangeInclusive<i64>],
    /// Attributes without which the front end refuses a node or takes it for something else.
    pub attributes: &'static [&'static str],
    /// Inputs that decide the shape of the result, so that they have to be constants.
    pub constants: &'static [usize],
    /// Whether all inputs have to be of one type.
    pub one_type: bool,
}

impl Operator {
    /// Whether the operator is known at `opset`.
    pub(super) fn is_known_at(&self, opset: i64) -> bool {
        self.opsets.iter().any(|range| range.contains(&opset))
    }

    const fn new(name: &'static str) -> Self {
        Self { name, opsets: &[8..=18], attributes: &[], constants: &[], one_type: false }
    }

    const fn of_one_type(name: &'static str) -> Self {
        Self { one_type: true, ..Self::new(name) }
    }

    const fn at(self, opsets: &'static [RangeInclusive<i64>]) -> Self {
        Self { opsets, ..self }
    }

    const fn with_attributes(self, attributes: &'static [&'static str]) -> Self {
        Self { attributes, ..self }
    }

    const fn with_constants(self, constants: &'static [usize]) -> Self {
        Self { constants, ..self }
    }
}

/// The operator of that name.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.name == name)
}

/// Whether CANN's ONNX front end knows `operator` of the default domain at `opset`.
pub fn is_registered(operator: &str, opset: i64) -> bool {
    find(operator).is_some_and(|operator| operator.is_known_at(opset))
}

const OPERATORS: &[Operator] = &[
    // Element by element.
    Operator::new("Abs"),
    Operator::new("Ceil"),
    Operator::new("Cos"),
    Operator::new("Erf"),
    Operator::new("Exp"),
    Operator::new("Floor"),
    Operator::new("HardSwish").at(&[14..=18]),
    Operator::new("Identity"),
    Operator::new("Log"),
    Operator::new("Neg"),
    Operator::new("Not"),
    Operator::new("Reciprocal"),
    Operator::new("Relu"),
    Operator::new("Round"),
    Operator::new("Sigmoid"),
    Operator::new("Sign"),
    Operator::new("Sin"),
    Operator::new("Softplus"),
    Operator::new("Sqrt"),
    Operator::new("Tanh"),
    Operator::new("Cast").with_attributes(&["to"]),
    Operator::of_one_type("Add"),
    Operator::of_one_type("And"),
    Operator::of_one_type("Clip"),
    Operator::of_one_type("Div"),
    Operator::of_one_type("Equal"),
    Operator::of_one_type("Greater"),
    Operator::of_one_type("Less"),
    Operator::of_one_type("Max"),
    Operator::of_one_type("Min"),
    Operator::of_one_type("Mul"),
    Operator::of_one_type("Or"),
    Operator::of_one_type("Pow"), // ONNX allows an exponent of another type, CANN's own operator does not
    Operator::of_one_type("PRelu"),
    Operator::of_one_type("Sub"),
    Operator::new("Where"),
    // Products.
    Operator::of_one_type("Conv").with_attributes(&["kernel_shape", "strides", "pads", "dilations", "group"]),
    Operator::of_one_type("ConvTranspose"),
    Operator::of_one_type("Gemm"),
    Operator::of_one_type("MatMul"),
    // Reductions.
    Operator::new("LayerNormalization").at(&[17..=18]),
    Operator::new("ReduceL2").at(&[8..=17]),
    Operator::new("ReduceMax"),
    Operator::new("ReduceMean").with_attributes(&["axes"]), // ignored as an input, the form of opset 18
    Operator::new("ReduceSum").with_constants(&[1]),
    Operator::new("Softmax"),
    // Shapes.
    Operator::of_one_type("Concat").with_attributes(&["axis"]),
    Operator::new("Expand").with_constants(&[1]),
    Operator::new("Gather"),
    Operator::new("Pad").with_constants(&[1]),
    Operator::new("Reshape").with_constants(&[1]),
    Operator::new("Slice").with_constants(&[1, 2, 3, 4]),
    Operator::new("Split").with_constants(&[1]),
    Operator::new("Squeeze").with_constants(&[1]),
    Operator::new("Tile").with_constants(&[1]),
    Operator::new("Transpose").with_attributes(&["perm"]),
    Operator::new("Unsqueeze").with_constants(&[1]),
    // The vendor's own.
    Operator::of_one_type(FLASH_ATTENTION).at(&[11..=16, 19..=19]).with_attributes(&[
        "num_heads",
        "input_layout",
        "scale_value",
        "pre_tokens",
        "next_tokens",
    ]),
    Operator::of_one_type("NPURmsNorm").at(&[11..=18]),
    Operator::of_one_type("NPURotaryMul").at(&[11..=18]),
];
