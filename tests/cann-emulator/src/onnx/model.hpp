// What the emulator reads of an ONNX model, as views into its bytes. Field numbers are those of onnx.proto.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace onnx {

// TensorProto.DataType, as far as CANN and this emulator meet them.
enum DataType : int {
    kUndefined = 0, kFloat = 1, kUint8 = 2, kInt8 = 3, kUint16 = 4, kInt16 = 5, kInt32 = 6, kInt64 = 7, kBool = 9,
    kFloat16 = 10, kDouble = 11, kUint32 = 12, kUint64 = 13, kBfloat16 = 16,
};

/// Bytes of one element; 0 for a type that the emulator does not know.
std::size_t size_of(int data_type);

/// A dimension is -1 where the model leaves it open.
using Shape = std::vector<std::int64_t>;

/// The number of elements; every dimension must be known.
std::size_t elements(const Shape& shape);

struct Tensor {
    std::string_view name;
    int data_type = kUndefined;
    Shape dims;
    std::string_view floats;    // float_data, when that is where the values are
    std::string_view raw;       // raw_data
    bool external = false;      // the values are in a file

    std::size_t bytes() const { return elements(dims) * size_of(data_type); }
};

struct Attribute {
    // AttributeProto.AttributeType
    enum Type : int { kFloatAttr = 1, kInt = 2, kString = 3, kTensor = 4, kGraph = 5, kFloats = 6, kInts = 7 };

    std::string_view name;
    int type = 0;
    float f = 0;
    std::int64_t i = 0;
    std::string_view s;
    std::vector<std::int64_t> ints;
    std::optional<Tensor> tensor;
};

struct Node {
    std::string_view name, op, domain;
    std::vector<std::string_view> inputs, outputs;
    std::vector<Attribute> attributes;

    /// An attribute of this name and type; none when the node has none.
    const Attribute* attribute(std::string_view name, Attribute::Type type) const;
};

struct Value {
    std::string_view name;
    int data_type = kUndefined;
    std::optional<Shape> shape;  // none when even the rank is open
};

struct Model {
    std::map<std::string_view, std::int64_t> opsets;  // by domain
    bool has_graph = false;
    std::vector<Value> inputs, outputs;
    std::vector<Tensor> initializers;
    std::vector<Node> nodes;

    /// Throws wire::Malformed. The model refers to `bytes`.
    static Model read(std::string_view bytes);

    /// The inputs that are no defaults for an initializer, in order.
    std::vector<Value> required_inputs() const;
};

/// The model with these shapes for its inputs (and every other field as it was).
std::string with_input_shapes(std::string_view bytes, const std::map<std::string, Shape>& shapes);

/// The model with more outputs, whose types are left to inference.
std::string with_outputs(std::string_view bytes, const std::vector<std::string_view>& names);

/// The model with these values rounded to f16 where a node makes them: `halves`, which are f16, and `floats`, which are
/// f32 and stay so.
///
/// An f16 model needs that too. ONNX Runtime's CPU provider has few kernels for f16, puts casts to and from f32 around
/// the others and takes out those that meet, so that values would pass from one operator to the next in f32 and neither
/// be rounded nor overflow as they do on an NPU. Identities, which have a kernel for f16, keep the casts apart; two of
/// them, as a single one among f32 operators would be run in f32 itself.
std::string with_rounding(std::string_view bytes, const std::set<std::string_view>& halves,
                          const std::set<std::string_view>& floats);

}  // namespace onnx
