// Taken from the registrations in CANN's open operator repositories (`OriginOpType({"ai.onnx::16::MatMul", ...})` in
// the *_onnx_plugin.cpp files of ops-math, ops-nn, ops-cv and ops-transformer).

#include "op_table.hpp"

#include <map>
#include <set>

namespace ge {
namespace {

constexpr std::int64_t kFirstOpset = 8, kLastOpset = 18;

// Registered for each opset from kFirstOpset to kLastOpset.
const std::set<std::string_view> kEverywhere = {
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "AveragePool",
    "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "Compress", "Concat", "ConstantOfShape", "Conv",
    "ConvTranspose", "Cos", "Cosh", "CumSum", "DepthToSpace", "Det", "Div", "Dropout", "Einsum", "Elu", "Equal", "Erf",
    "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gemm",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "Greater", "HardSigmoid", "Hardmax", "Identity", "If",
    "InstanceNormalization", "LRN", "LSTM", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "LpNormalization",
    "LpPool", "MatMul", "Max", "MaxPool", "MaxRoiPool", "Mean", "MeanVarianceNormalization", "Min", "Mul",
    "Multinomial", "Neg", "NonMaxSuppression", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range", "Reciprocal", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu",
    "Reshape", "ReverseSequence", "RoiAlign", "Round", "Scatter", "ScatterElements", "Selu", "Shape", "Shrink",
    "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split",
    "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Unsqueeze",
    "Where", "Xor",
};

// Registered for these only.
const std::map<std::string_view, std::set<std::int64_t>> kSomewhere = {
    {"BitShift", {11, 12, 13, 14, 15, 16, 17, 18}},
    {"BitwiseAnd", {18}},
    {"BitwiseNot", {18}},
    {"BitwiseOr", {18}},
    {"BitwiseXor", {18}},
    {"CastLike", {15, 16, 17, 18}},
    {"GreaterOrEqual", {8, 12, 13, 14, 15, 16, 17, 18}},
    {"GridSample", {11, 16, 17, 18}},
    {"HardSwish", {14, 15, 16, 17, 18}},
    {"IsNaN", {9, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
    {"LayerNormalization", {17, 18}},
    {"Mod", {10, 11, 12, 13, 14, 15, 16, 17, 18}},
    {"ReduceL1", {8, 9, 10, 11, 12, 13, 14, 15, 16, 17}},
    {"ReduceL2", {8, 9, 10, 11, 12, 13, 14, 15, 16, 17}},
    {"Resize", {10, 11, 12, 13, 14, 15, 16, 17, 18}},
    {"ScatterND", {8, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
    {"Trilu", {14, 15, 16, 17, 18}},
    {"NPUPromptFlashAttention", {11, 12, 13, 14, 15, 16, 19}},
};

// Operators of Huawei's own that CANN parses from ONNX and that a graph might want.
const std::set<std::string_view> kBeyondEmulation = {
    "NPUAddRmsNorm", "NPUAntiQuant", "NPUDtypeCast", "NPUDynamicQuant", "NPUFastGelu", "NPUFlashAttention",
    "NPUGroupNormSilu", "NPURmsNorm", "NPURotaryMul", "NPURotaryPositionEmbedding", "NPUWeightQuantBatchmatmulV2",
};

}  // namespace

bool has_parser(std::string_view op, std::int64_t opset) {
    if (op == "Constant") return true;  // turned into GE's own constants, without a parser
    const auto some = kSomewhere.find(op);
    if (some != kSomewhere.end()) return some->second.count(opset) != 0;
    return opset >= kFirstOpset && opset <= kLastOpset && kEverywhere.count(op) != 0;
}

bool is_beyond_emulation(std::string_view op) { return kBeyondEmulation.count(op) != 0; }

}  // namespace ge
